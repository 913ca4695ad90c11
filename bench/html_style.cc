#include "bench/html_style.h"

namespace tidewheel::bench {

// Colours: Okabe and Ito's, which people with colour-blindness tell apart; darker where white is behind.
const char* const kPageStyle = R"css(
:root{--bg:#fbfbf9;--card:#fff;--ink:#1c2326;--soft:#586469;--line:#dfe3e2;--grid:#e9eceb;--shade:#eef1f2;
--warn:#8a3b00;--warnbg:#fff3e6;--accent:#00627a;--level:#333;
--c0:#0072b2;--c1:#c04e00;--c2:#8c4f8a;--c3:#3a93c4;--c4:#00815c;--c5:#a07800;--c6:#6b6b6b;--c7:#b03060}
@media (prefers-color-scheme:dark){@media screen{:root{--bg:#14191b;--card:#1c2326;--ink:#e8edee;
--soft:#a3b0b5;
--line:#344045;--grid:#2a3438;--shade:#263034;--warn:#ffb878;--warnbg:#3a2a1a;--accent:#6cc5dc;
--level:#cfd8da;
--c0:#4ba6e0;--c1:#f0813a;--c2:#cc8fca;--c3:#7cc7ee;--c4:#2fbf92;--c5:#d8b23a;--c6:#b0b0b0;--c7:#f07a9f}}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
main,header,footer{max-width:1320px;margin:0 auto;padding:0 16px}
header{padding-top:28px}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 6px;letter-spacing:-.01em}
h2{font-size:1.25rem;line-height:1.3;margin:40px 0 4px;padding-top:14px;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:20px 0 8px}
p{margin:6px 0 10px;max-width:76ch}
.soft{color:var(--soft)}
.lead{color:var(--soft);margin-bottom:14px}
.warn{background:var(--warnbg);color:var(--warn);border-left:4px solid var(--warn);padding:8px 12px;
max-width:none}
.model{display:inline-block;border:2px dashed var(--warn);color:var(--warn);border-radius:4px;padding:0 8px;
font-weight:600;font-size:.875rem;vertical-align:middle}
.facts{display:grid;gap:10px;grid-template-columns:repeat(auto-fill,minmax(min(100%,250px),1fr));
margin:18px 0;
padding:0;list-style:none}
.facts li{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 14px}
.facts b{display:block;font-size:1.3rem;line-height:1.3;font-variant-numeric:tabular-nums}
.facts span{color:var(--soft);font-size:.9rem}
.grid{display:grid;gap:14px;grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr));
align-items:start}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px;
min-width:0}
.wide{max-width:640px}
figcaption{font-weight:600;font-size:.95rem;margin-bottom:6px}
figcaption small{font-weight:400;color:var(--soft)}
svg{display:block;width:100%;height:auto;overflow:visible;font-family:inherit}
svg text{fill:var(--ink);font-size:11px}
svg .tick,svg .mark{font-size:10px;fill:var(--soft)}
svg .mark{paint-order:stroke;stroke:var(--card);stroke-width:3px}
svg .group{font-weight:600;font-size:12px}
svg .value{font-variant-numeric:tabular-nums}
svg .absent{fill:var(--soft);font-style:italic}
svg line{stroke:var(--soft);stroke-width:1}
svg .grid{stroke:var(--grid)}
svg .axis{stroke:var(--soft)}
svg .whisker{stroke:var(--ink);stroke-width:1.2}
svg .level{stroke:var(--level);stroke-dasharray:6 3}
svg .moment{stroke:var(--level);stroke-dasharray:1.5 2.5}
svg .span{stroke:var(--line);stroke-width:2}
svg .leader{stroke:var(--line)}
svg .cursor{stroke:var(--accent);stroke-width:1}svg .cursor[x1="-9"]{display:none}
svg .shade{fill:var(--shade)}
svg path{fill:none;stroke-linejoin:round}
svg .main{stroke-width:1.8}
svg .total{stroke-width:1.8}
svg .other{stroke-width:.8;opacity:.4}
svg .area{stroke:none;opacity:.28}
svg .dash1{stroke-dasharray:7 3}svg .dash2{stroke-dasharray:2 2.5}svg .dash3{stroke-dasharray:10 3 2 3}
svg .dash4{stroke-width:2.6}
.c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}
.c4{--c:var(--c4)}.c5{--c:var(--c5)}.c6{--c:var(--c6)}.c7{--c:var(--c7)}
svg path{stroke:var(--c)}svg .area,svg .bar{fill:var(--c)}svg .dot{fill:var(--c);stroke:var(--card);
stroke-width:.8}
.readout{min-height:1.4em;margin:2px 0 0;font-size:.8rem;color:var(--soft);
font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto;max-width:100%}
.scroll:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums;margin:6px 0}
caption{text-align:left;color:var(--soft);padding-bottom:4px}
th,td{padding:3px 10px 3px 0;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line);
vertical-align:top}
th:first-child{text-align:left;position:sticky;left:0;background:var(--bg);padding-right:14px}
figure th:first-child{background:var(--card)}
thead th{color:var(--soft);font-weight:600}tbody th{font-weight:600}
.texts th{text-align:left}.texts td{text-align:left;white-space:normal;overflow-wrap:anywhere}
details{margin:8px 0 0;font-size:.9rem}
summary{cursor:pointer;color:var(--accent);padding:4px 0}
details .scroll{max-height:340px;overflow-y:auto}
pre{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:10px 12px;
white-space:pre-wrap;
overflow-wrap:anywhere;font-size:.85rem}
code{font-size:.9em;overflow-wrap:anywhere}
.key{display:flex;flex-wrap:wrap;gap:4px 18px;margin:4px 0 10px;padding:0;list-style:none;font-size:.85rem;
color:var(--soft)}
.key svg{width:26px;height:12px;display:inline-block;vertical-align:-1px;margin-right:5px}
footer{color:var(--soft);font-size:.85rem;padding-bottom:40px;margin-top:30px}
@media print{
@page{margin:14mm}
:root{--bg:#fff;--card:#fff;--ink:#000;--soft:#333;--line:#bbb;--grid:#ddd;--shade:#eee;--accent:#000;
--warnbg:#fff;
--warn:#000}
body{font-size:10pt}
.grid{grid-template-columns:repeat(2,1fr)}
figure,.facts li{break-inside:avoid}
h2,h3{break-after:avoid}
.scroll{overflow:visible}table{font-size:7pt}th,td{padding-right:6px;white-space:normal}
th:first-child{position:static}
.readout,.noprint,details:not([open]){display:none}
svg *{-webkit-print-color-adjust:exact;print-color-adjust:exact}
main,header,footer{padding:0;max-width:none}
}
)css";

const char* const kPageScript = R"js(
(function(){
var root=document.documentElement,errors=0;
window.addEventListener('error',function(){errors++;root.dataset.errors=errors;});
function readout(figure,svg,event){
  var rows=figure.querySelectorAll('tbody tr'),head=figure.querySelectorAll('thead th');
  if(!rows.length)return;
  var box=svg.getBoundingClientRect(),left=+svg.dataset.left,right=+svg.dataset.right,
most=+svg.dataset.most;
  var x=(event.clientX-box.left)*360/box.width;
  var t=(Math.min(Math.max(x,left),right)-left)/(right-left)*most,best=rows[0],gap=1/0;
  for(var i=0;i<rows.length;i++){
    var d=Math.abs(parseFloat(rows[i].cells[0].textContent)-t);
    if(d<gap){gap=d;best=rows[i];}
  }
  var at=left+parseFloat(best.cells[0].textContent)/most*(right-left),text=[];
  figure.querySelectorAll('.cursor').forEach(function(c){c.setAttribute('x1',at);c.setAttribute('x2',at);});
  for(var c=0;c<best.cells.length;c++)text.push(head[c].textContent+' '+best.cells[c].textContent);
  figure.querySelector('.readout').textContent=text.join(' · ');
}
document.querySelectorAll('svg.time').forEach(function(svg){
  var figure=svg.closest('figure');
  ['pointermove','pointerdown'].forEach(function(kind){
    svg.addEventListener(kind,function(event){readout(figure,svg,event);});
  });
});
function check(){
  root.dataset.overflow=Math.max(0,root.scrollWidth-root.clientWidth);
  root.dataset.width=root.clientWidth;
  root.dataset.charts=document.querySelectorAll('main svg[role=img]').length;
  root.dataset.errors=errors;
  root.dataset.ready='yes';
}
if(document.readyState==='complete')check();else window.addEventListener('load',check);
})();
)js";

}  // namespace tidewheel::bench
