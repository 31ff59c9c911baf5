package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// floorWaits are the waits for the disk that precede each other in a start: the registration, the plan and
// the claim in the log of the servers, and on the node the allocation, the claim, either call of the CSI
// driver and the start of the process.
const floorWaits = 8

// bareStart makes the parts of a start that no agent can leave out, one after the other and without any work
// between: the waits for the disk and the processes, but not the calls of the CSI driver. The processes are
// the supervisor, which is the first process of the namespaces of the task, and its program. Each is the
// small program of the jobs.
func (n numbers) bareStart(dir, tools string) error {
	f, err := os.Create(filepath.Join(dir, "records"))
	if err != nil {
		return err
	}
	defer f.Close()
	begun := time.Now()
	for range floorWaits {
		err = errors.Join(err, writePage(f))
	}
	if err != nil {
		return err
	}
	const isolated = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	var last time.Time
	for i, namespaces := range []uintptr{isolated, 0} {
		var end func()
		end, last, err = bareProcess(dir, tools, i, namespaces)
		defer end()
		if err != nil {
			return err
		}
	}
	n.add(floorStart, last.Sub(begun).Seconds())
	return nil
}

// bareProcess starts the program of the jobs. It returns when the program has written, with the time that it
// wrote and what ends it.
func bareProcess(dir, tools string, i int, namespaces uintptr) (end func(), wrote time.Time, err error) {
	file := filepath.Join(dir, "bare-"+strconv.Itoa(i))
	_ = os.Remove(file) // of the start before
	cmd := exec.CommandContext(context.Background(), filepath.Join(tools, "bin", "writer"), file)
	cmd.SysProcAttr = withMe()
	cmd.SysProcAttr.Cloneflags = namespaces
	err = cmd.Start()
	if err != nil {
		return func() {}, wrote, err
	}
	end = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(100 * time.Microsecond) {
		var text []byte
		text, err = os.ReadFile(file)
		if err == nil {
			ns, err := strconv.ParseInt(string(text), 10, 64)
			return end, time.Unix(0, ns), err
		}
	}
	return end, wrote, err
}
