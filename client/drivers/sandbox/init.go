package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"berth/client/cgroups"
	"berth/structs"
)

// Init is pid 1 of a sandbox from start to end. The caller exits with the result. It has marked all inherited
// files close-on-exec.
func Init() int {
	_ = os.WriteFile("/proc/self/comm", []byte("berth-init"), 0) // for lists of processes
	swallowSignals()
	conn := os.NewFile(socketFD, "sandbox")
	down := json.NewDecoder(conn)
	up := json.NewEncoder(conn)
	var m message
	err := down.Decode(&m)
	if err != nil || m.Config == nil || m.Group == nil {
		return 1
	}
	sessions, pid, err := beginInit(m.Config, m.Group)
	if err == nil && m.Sessions {
		err = sessions.serveInherited()
	}
	if err != nil {
		_ = up.Encode(&message{Error: structs.ErrorToWire(err)})
		return 1
	}
	err = up.Encode(&message{Started: pid})
	if err != nil {
		return 1
	}
	go forwardSignals(down, pid)
	exit, err := sessions.Children.Reap(pid)
	if err != nil {
		exit.Code = -1
	}
	err = up.Encode(&message{Exit: &exit})
	if err != nil {
		return 1
	}
	return 0
}

// swallowSignals prevents that a signal of the program ends pid 1. Programs inherit ignored signals, so it
// does not ignore them.
func swallowSignals() {
	signal.Notify(make(chan os.Signal, 1))
}

// beginInit builds the root and starts the program in it. It first opens the files of the cgroup, because the
// root does not show them.
func beginInit(cfg *Config, group *cgroups.Group) (*Sessions, int, error) {
	err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // hides /proc/1 from the program
	if err != nil {
		return nil, 0, err
	}
	entry, err := group.Entry()
	if err != nil {
		return nil, 0, err
	}
	if cfg.Hostname != "" {
		err = unix.Sethostname([]byte(cfg.Hostname))
		if err != nil {
			return nil, 0, fmt.Errorf("setting the name of the host: %w", err)
		}
	}
	err = buildRoot(cfg)
	if err != nil {
		return nil, 0, err
	}
	pid, err := cfg.Program.Start(os.Stdout, os.Stderr, entry)
	if err != nil {
		return nil, 0, err
	}
	sessions := &Sessions{
		Program:     &cfg.Program,
		Entry:       entry,
		Children:    &Children{},
		Multiplexer: "/dev/pts/ptmx", // of the sandbox's own devpts; the program could replace /dev/ptmx
	}
	return sessions, pid, releaseOutput()
}

// serveInherited serves sessions on the socket that this process has inherited. The program does not see the
// socket, and cannot open the files of pid 1.
func (s *Sessions) serveInherited() error {
	f := os.NewFile(sessionsFD, "sessions")
	ln, err := net.FileListener(f)
	_ = f.Close() // ln has a copy
	if err != nil {
		return err
	}
	go s.Serve(context.Background(), ln)
	return nil
}

// releaseOutput closes the task's output in pid 1: the output has to end with the task's processes.
func releaseOutput() error {
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for fd := 1; fd <= 2; fd++ {
		err := unix.Dup3(int(null.Fd()), fd, 0)
		if err != nil {
			return err
		}
	}
	return nil
}

// forwardSignals forwards signals to the program. When the parent is gone it ends the sandbox.
func forwardSignals(down *json.Decoder, pid int) {
	for {
		var m message
		if err := down.Decode(&m); err != nil {
			os.Exit(1)
		}
		// The program is a child that is not reaped before Init is over, so the pid is its own.
		_ = unix.Kill(pid, unix.Signal(m.Signal))
	}
}
