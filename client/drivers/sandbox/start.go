package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/client/cgroups"
	"berth/structs"
)

// Options are the inputs of Start besides the Config.
type Options struct {
	Command []string // runs Init: this executable and its arguments
	Stdout  *os.File // become the program's; stdin is /dev/null
	Stderr  *os.File
	Group   *cgroups.Group // of the program
	// Sessions is a listening Unix socket on which pid 1 serves sessions (see Session); nil: none.
	Sessions *os.File
}

// Proc is a running sandbox. Wait must be called once.
type Proc struct {
	cmd  *exec.Cmd
	conn *os.File
	up   *json.Decoder
}

// Start makes the sandbox and returns when the program runs. The calling thread must live as long as the
// sandbox: its end kills the sandbox, so that the sandbox ends with this process. If Start fails it leaves
// nothing.
func Start(cfg *Config, o Options) (*Proc, error) {
	// A program in the sandbox can reach the mount that pid 1 was executed from, as /proc/self/exe. It must not
	// be able to write to the host's file.
	exe, err := cloneReadOnly(o.Command[0])
	if err != nil {
		return nil, fmt.Errorf("protecting the executable %s: %w", o.Command[0], err)
	}
	defer exe.Close()
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	path := fmt.Sprintf("/proc/self/fd/%d", exeFD)
	cmd := exec.Command(path, o.Command[1:]...)
	cmd.Args[0] = "berth" // for lists of processes
	cmd.Env = RuntimeEnv(1)
	cmd.Stdout = o.Stdout
	cmd.Stderr = o.Stderr
	cmd.ExtraFiles = []*os.File{theirs, exe}
	if o.Sessions != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, o.Sessions)
	}
	cmd.SysProcAttr = &unix.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID |
			unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig: unix.SIGKILL,
		Setsid:    true,
	}
	err = cmd.Start()
	if err != nil {
		err = fmt.Errorf("making the sandbox's namespaces: %w", err)
		return nil, errors.Join(err, ours.Close())
	}
	p := &Proc{
		cmd:  cmd,
		conn: ours,
		up:   json.NewDecoder(ours),
	}
	err = p.handshake(&message{
		Config:   cfg,
		Group:    o.Group,
		Sessions: o.Sessions != nil,
	})
	if err != nil {
		return nil, errors.Join(err, p.abort())
	}
	return p, nil
}

// cloneReadOnly opens a file or a directory through a separate read-only mount, which is attached nowhere.
func cloneReadOnly(path string) (*os.File, error) {
	const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, flags)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	readOnly := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, readOnly)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func socketpair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(
		unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a socket pair: %w", err)
	}
	err = unix.SetNonblock(fds[0], true) // so that closing it ends a read
	if err != nil {
		return nil, nil, err
	}
	ours = os.NewFile(uintptr(fds[0]), "sandbox")
	theirs = os.NewFile(uintptr(fds[1]), "sandbox-init")
	return ours, theirs, nil
}

func (p *Proc) handshake(first *message) error {
	err := json.NewEncoder(p.conn).Encode(first)
	if err != nil {
		return fmt.Errorf("sending the program to the sandbox: %w", err)
	}
	var m message
	err = p.up.Decode(&m)
	if err != nil {
		return fmt.Errorf("the sandbox ended before it ran the program: %w", err)
	}
	if m.Error != "" {
		return structs.ErrorFromWire(m.Error)
	}
	return nil
}

// abort kills and reaps the child. The exit status of a killed child has no meaning.
func (p *Proc) abort() error {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	return p.conn.Close()
}

// PID is the id of pid 1 on the host.
func (p *Proc) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to the program.
func (p *Proc) Signal(sig unix.Signal) error {
	return json.NewEncoder(p.conn).Encode(&message{Signal: int(sig)})
}

// Kill kills all processes of the sandbox at once. Wait then returns SIGKILL as the end of the program.
func (p *Proc) Kill() error {
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Wait returns when all processes of the sandbox have ended. After an error the end of the program is
// unknown.
func (p *Proc) Wait() (Exit, error) {
	var m message
	err := p.up.Decode(&m)
	_ = p.cmd.Wait() // the message reports the program's end; without it ProcessState does
	_ = p.conn.Close()
	if err == nil && m.Exit != nil {
		return *m.Exit, nil
	}
	ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		return Exit{Signal: int(ws.Signal())}, nil
	}
	return Exit{}, fmt.Errorf("the sandbox's pid 1 ended by itself (%s)", p.cmd.ProcessState)
}
