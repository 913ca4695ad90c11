#!/usr/bin/env python3
# tests/examples/strace_to_trace.py: makes a trace for the laboratory out of what strace saw of a program.
#   strace -f -ttt -e trace=openat,read,write,pread64,pwrite64,lseek,close,dup2,clone,clone3,vfork,fork \
#          -o seen.txt COMMAND
#   strace_to_trace.py seen.txt > access.trace
# Regular files by their path as seen; pipes, sockets, /dev, /proc and /sys are left out, and so is what mmap
# reads. Times are since the first access, inodes numbers in the order of first use.
import re
import sys

CALL = re.compile(r'^(\d+)\s+(\d+\.\d+) (\w+)\((.*)\)\s+= (-?\d+)')
UNFINISHED = re.compile(r'^(\d+)\s+(\d+\.\d+) (\w+)\((.*) <unfinished \.\.\.>')
RESUMED = re.compile(r'^(\d+)\s+\d+\.\d+ <\.\.\. (\w+) resumed>(.*)\)\s+= (-?\d+)')

tables = {}   # pid -> fd -> [path, position]
pending = {}  # pid -> (time, call, start of its arguments)
inodes = {}
start = None


def emit(time, op, path, offset, length):
    global start
    start = time if start is None else start
    number = inodes.setdefault(path, len(inodes) + 1)
    print(f'{int((time - start) * 1e6)} {op} {number} {offset} {length}')


def call(pid, time, name, args, result):
    fds = tables.setdefault(pid, {})
    if name in ('clone', 'clone3', 'vfork', 'fork'):
        if result > 0:
            # A child that has run before its parent's call returned keeps what it opened.
            child = tables.setdefault(result, {})
            for fd, file in fds.items():
                child.setdefault(fd, list(file))
        return
    if result < 0:
        return
    if name == 'openat':
        path = re.search(r'"([^"]*)"', args)
        if path and not re.match(r'/(dev|proc|sys)/', path.group(1)):
            fds[result] = [path.group(1), 0]
        return
    words = args.split(',')
    fd = int(words[0]) if words[0].lstrip('-').isdigit() else -1
    if name == 'close':
        fds.pop(fd, None)
    elif name == 'dup2' and fd in fds:
        fds[result] = fds[fd]
    elif fd not in fds:
        return
    elif name == 'lseek':
        fds[fd][1] = result
    elif name in ('read', 'write'):
        if result > 0:
            emit(time, name, fds[fd][0], fds[fd][1], result)
            fds[fd][1] += result
    elif name in ('pread64', 'pwrite64') and result > 0:
        emit(time, name[1:-2], fds[fd][0], int(words[-1]), result)


lines = []
for line in open(sys.argv[1], errors='replace'):
    if match := UNFINISHED.match(line):
        pending[match[1]] = (match[2], match[3], match[4])
    elif match := RESUMED.match(line):
        if match[1] in pending:
            time, name, args = pending.pop(match[1])
            lines.append((float(time), match[1], name, args + match[3], int(match[4])))
    elif match := CALL.match(line):
        lines.append((float(match[2]), match[1], match[3], match[4], int(match[5])))
lines.sort(key=lambda each: each[0])
print('# time_us op inode offset length')
for time, pid, name, args, result in lines:
    call(pid, time, name, args, result)
