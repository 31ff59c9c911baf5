package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"berth/bench/peer/result"
)

// The names of the rows that show what a start takes without any orchestrator.
const (
	floorDisk    = "lower bound: one wait for the disk (a page, fdatasync)"
	floorProgram = "lower bound: CPU of the job's program alone, start to end"
	floorStart   = "lower bound: waits for the disk and two bare processes, one after the other"
)

func floorScenario() scenario {
	return scenario{
		rows: []result.Row{
			inMilliseconds(floorDisk, 0),
			inMilliseconds(floorProgram, 0),
			inMilliseconds(floorStart, 0),
		},
		measure: measureFloor,
		alone:   true,
	}
}

// measureFloor measures what the rows of an agent contain whatever the agent does.
func measureFloor(b *bench, _ *product) (numbers, error) {
	dir, err := os.MkdirTemp(b.scratch, "floor-")
	if err != nil {
		return nil, err
	}
	n := numbers{}
	tools := filepath.Join(b.bin, "tools")
	err = errors.Join(n.waitForDisk(dir), n.runProgram(dir, tools))
	for range repetitions {
		err = errors.Join(err, n.bareStart(dir, tools))
	}
	return n, err
}

// waitForDisk measures writes of one page.
func (n numbers) waitForDisk(dir string) error {
	f, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		return err
	}
	defer f.Close()
	for range 200 {
		begun := time.Now()
		if err := writePage(f); err != nil {
			return err
		}
		n.add(floorDisk, time.Since(begun).Seconds())
	}
	return nil
}

// writePage writes a page and waits for the disk.
func writePage(f *os.File) error {
	_, err := f.WriteAt(make([]byte, 4096), 0)
	if err != nil {
		return err
	}
	return syscall.Fdatasync(int(f.Fd()))
}

// runProgram runs the program of the jobs until it has written.
func (n numbers) runProgram(dir, tools string) error {
	for i := range 20 {
		file := filepath.Join(dir, fmt.Sprintf("written-%d", i))
		cmd := exec.CommandContext(context.Background(), filepath.Join(tools, "bin", "writer"), file)
		cmd.SysProcAttr = withMe()
		if err := cmd.Start(); err != nil {
			return err
		}
		err := await(file, func() error {
			_, err := os.Stat(file)
			return err
		})
		_ = cmd.Process.Signal(syscall.SIGTERM)
		err = errors.Join(err, cmd.Wait())
		if err != nil {
			return err
		}
		n.add(floorProgram, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	}
	return nil
}
