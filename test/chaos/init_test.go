package chaos

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/test/stepclock"
)

// runInit is the first process of a machine. Its arguments are the file with the boot ID, that of the
// log, and the command of the agent. It starts the agent for each line of its standard input and writes
// the agent's pid, and later its end. It reaps everything.
func runInit(args []string) int {
	if err := enterMachine(filepath.Dir(args[0])); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
		return 1
	}
	log, err := os.OpenFile(args[1], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, "init:", err)
		return 1
	}
	var mu sync.Mutex // the agent is known before it is reaped
	agent := 0
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	go func() {
		for range children {
			mu.Lock()
			reap(&agent)
			mu.Unlock()
		}
	}()
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		mu.Lock()
		agent, err = syscall.ForkExec(args[2], args[2:], &syscall.ProcAttr{
			Env:   os.Environ(),
			Files: []uintptr{0, log.Fd(), log.Fd()},
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, "init:", err)
			return 1
		}
		fmt.Println("agent", agent)
		mu.Unlock()
	}
	return 0
}

// reap takes all children that have ended, and tells the end of the agent.
func reap(agent *int) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err != nil || pid <= 0 {
			return
		}
		if pid == *agent {
			fmt.Printf("ended %d\n", status)
		}
	}
}

// machineFile identifies a machine. Those of the run have no DMI.
const (
	machineFile = "/etc/machine-id"
	dmiDir      = "/sys/class/dmi"
)

// enterMachine makes the mounts of a machine from the files in its directory: its own processes, its memory,
// its identity, its boot ID and its wall clock.
func enterMachine(dir string) error {
	const idPath = "/proc/sys/kernel/random/boot_id"
	clock := filepath.Join(dir, "clock")
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"proc", "/proc", "proc", 0},
		{"tmpfs", "/run", "tmpfs", 0},
		{filepath.Join(dir, "boot_id"), idPath, "", unix.MS_BIND},
		{filepath.Join(dir, "machine-id"), machineFile, "", unix.MS_BIND},
		{"tmpfs", dmiDir, "tmpfs", 0},
		{clock, stepclock.Path, "", unix.MS_BIND},
	} {
		if _, err := os.Stat(dmiDir); m.target == dmiDir && err != nil {
			continue
		}
		if m.source == clock {
			if err := os.WriteFile(m.target, nil, 0o400); err != nil {
				return err
			}
		}
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m.target, err)
		}
	}
	return nil
}

// startOnOwnThread starts a command on a thread that stays, because Pdeathsig is bound to it.
func startOnOwnThread(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		started <- cmd.Start()
		select {}
	}()
	return <-started
}
