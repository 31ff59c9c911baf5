package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/structs"
)

// Options are the inputs of Start besides the Config.
type Options struct {
	Command []string // runs Init: this executable and its arguments
	Stdout  *os.File // become the program's; stdin is /dev/null
	Stderr  *os.File
	Group   *cgroups.Group // of the program
}

// Proc is a running sandbox whose pid 1 is a child of this process. Wait must be called once.
type Proc struct {
	cmd  *exec.Cmd
	conn *os.File      // to Init; its end here ends the sandbox
	up   *json.Decoder // of conn: the messages of Init
}

// Start makes the sandbox and returns when the program runs. The calling thread must live as long as the
// sandbox: its end kills the sandbox, so that the sandbox ends with this process. If Start fails it leaves
// nothing.
func Start(cfg *Config, o Options) (*Proc, error) {
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()

	cmd := initCommand(&o, theirs)
	exe, err := Isolate(cmd)
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	defer exe.Close()

	err = StartSupervisor(cmd.Start)
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
		Config: cfg,
		Group:  o.Group,
	})
	if err != nil {
		return nil, errors.Join(err, p.abort())
	}

	return p, nil
}

// initCommand returns the command that runs Init.
func initCommand(o *Options, socket *os.File) *exec.Cmd {
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	cmd.Args[0] = "berth" // for lists of processes
	cmd.Env = RuntimeEnv(1)
	cmd.Stdout = o.Stdout
	cmd.Stderr = o.Stderr
	cmd.ExtraFiles = []*os.File{socket}
	cmd.SysProcAttr = &unix.SysProcAttr{
		Pdeathsig: unix.SIGKILL,
		Setsid:    true, // signals of the caller's terminal do not reach it
	}
	return cmd
}

// Isolate makes a command of berth's own executable start as pid 1 of new pid, ipc and uts namespaces, so
// that it can Run a sandbox. The caller closes the file after the start.
//
// A program in the sandbox can reach the mount that pid 1 was executed from, as /proc/self/exe. It must
// not be able to write to the host's file, so the mount is a read-only one.
func Isolate(cmd *exec.Cmd) (*os.File, error) {
	exe, err := cloneReadOnly(cmd.Path)
	if err != nil {
		return nil, fmt.Errorf("protecting the executable %s: %w", cmd.Path, err)
	}
	const firstExtra = 3 // after stdin, stdout and stderr
	cmd.Path = fmt.Sprintf("/proc/self/fd/%d", firstExtra+len(cmd.ExtraFiles))
	cmd.ExtraFiles = append(cmd.ExtraFiles, exe)
	cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	return exe, nil
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

// socketpair returns a stream whose two ends close on exec. exec.Cmd passes theirs on.
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

// handshake sends the description of the sandbox and waits until the program runs. Only then can the error of
// the start be told from the end of the program.
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

	// A killed pid 1 sends no message: Kill did it, or the end of the thread that started it. The kernel has
	// killed the program with it.
	ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		return Exit{Signal: int(ws.Signal())}, nil
	}
	return Exit{}, fmt.Errorf("the sandbox's pid 1 ended by itself (%s)", p.cmd.ProcessState)
}
