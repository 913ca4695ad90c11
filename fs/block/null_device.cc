#include "fs/block/null_device.h"

namespace tidewheel {

void NullDevice::submit(IoRequest& request) {
  Result<void> result = check(request);
  const bool refused = !result;
  if (!refused) trace_issue(request);
  if (result && request.op == IoOp::kRead) result = TW_FAIL(kUnsupported);
  counts_.count(request, result);
  if (!refused) trace_complete(request, result);
  request.done(request, result);
}

}  // namespace tidewheel
