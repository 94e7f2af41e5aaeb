"""Runs a program in a terminal of its own (100x30): our stdin is typed, what it shows is our stdout.
What of ours starts with \\x00 is an order, to the end of its line: RESIZE cols rows, or SIGNAL number.
When the program ends, the last line says its status and whether the terminal is as it was before."""
import fcntl, os, pty, select, signal, struct, sys, termios

def size(fd, cols, rows):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', rows, cols, 0, 0))

master, slave = pty.openpty()
size(slave, 100, 30)
before = termios.tcgetattr(slave)
pid = os.fork()
if pid == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in (0, 1, 2):
        os.dup2(slave, fd)
    os.close(master)
    os.execvp(sys.argv[1], sys.argv[1:])

def order(words):
    if words[0] == 'RESIZE':
        size(slave, int(words[1]), int(words[2]))
        os.kill(pid, signal.SIGWINCH)
    elif words[0] == 'SIGNAL':
        os.kill(pid, int(words[1]))

open_input = True
status = None
while True:
    readable, _, _ = select.select([master] + ([0] if open_input else []), [], [], 0.05)
    if 0 in readable:
        typed = os.read(0, 65536)
        if not typed:
            open_input = False
        else:
            while typed:
                if typed[:1] == b'\0':
                    line, _, typed = typed[1:].partition(b'\n')
                    order(line.decode().split())
                else:
                    keys, nul, rest = typed.partition(b'\0')
                    os.write(master, keys)
                    typed = nul + rest
    if master in readable:
        os.write(1, os.read(master, 65536))
    elif status is not None:
        break
    if status is None:
        done, raw = os.waitpid(pid, os.WNOHANG)
        if done:
            status = os.waitstatus_to_exitcode(raw)
restored = termios.tcgetattr(slave) == before
os.write(1, ('\nENDED %d %s\n' % (status, 'restored' if restored else 'CHANGED')).encode())
