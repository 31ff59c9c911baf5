package stats

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"

	"berth/client/csi/stats/statfs"
	"berth/structs"
	"berth/structs/volumeusage"
)

// maxHelpers bounds the processes that ask file systems, with those that do not end.
const maxHelpers = 8

// maxOutput bounds what a helper may print.
const maxOutput = 4 << 10

// helpers asks file systems in processes of their own.
type helpers struct {
	command []string // of the supervisor
	running atomic.Int32
}

// statfs asks the file system at a path. At the end of ctx it kills the helper and returns, also if the
// helper does not end: the kernel holds a process that waits for a dead server. With maxHelpers of those the
// error is unavailable, and no further one starts.
func (h *helpers) statfs(ctx context.Context, path string) (*volumeusage.VolumeUsage, error) {
	if h.running.Add(1) > maxHelpers {
		h.running.Add(-1)
		return nil, structs.Unavailablef("%d processes that ask file systems do not end; "+
			"unmount those whose server has failed", maxHelpers)
	}

	args := append(h.command[1:len(h.command):len(h.command)], statfs.Arg, path)
	cmd := exec.Command(h.command[0], args...)
	out := &limited{}
	cmd.Stdout = out
	cmd.Stderr = out
	err := cmd.Start()
	if err != nil {
		h.running.Add(-1)
		return nil, fmt.Errorf("starting a process for statfs: %w", err)
	}

	ended := make(chan error, 1)
	// It stays as long as the kernel holds the process.
	go func() {
		err := cmd.Wait()
		h.running.Add(-1)
		ended <- err
	}()

	select {
	case err = <-ended:
	case <-ctx.Done():
		_ = cmd.Process.Kill() // it may have ended
		return nil, structs.Timeoutf("statfs %s does not end: the server of its file system may have failed", path)
	}

	if err != nil {
		return nil, structs.Unavailablef("%s (%w)", structs.Printable(strings.TrimSpace(out.String())), err)
	}
	return decode(out.Bytes())
}

// limited keeps the first bytes of an output.
type limited struct{ bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	left := max(0, maxOutput-l.Len())
	_, _ = l.Buffer.Write(b[:min(left, len(b))]) // it never fails
	return len(b), nil
}

func decode(out []byte) (*volumeusage.VolumeUsage, error) {
	var a statfs.Answer
	err := json.Unmarshal(out, &a)
	if err != nil {
		return nil, structs.Internalf("the output of statfs: %w", err)
	}
	return &volumeusage.VolumeUsage{
		Source: volumeusage.SourceStatfs,
		Bytes:  amount(a.Bytes, a.FreeBytes, a.AvailableBytes),
		Inodes: amount(a.Inodes, a.FreeInodes, a.FreeInodes),
	}, nil
}

// amount returns nil for a total of 0: the file system does not count this.
func amount(total, free, available uint64) *volumeusage.UsageAmount {
	const most = 1<<63 - 1
	if total == 0 || total > most || free > total || available > total {
		return nil
	}
	return &volumeusage.UsageAmount{
		Total:     int64(total),
		Used:      int64(total - free),
		Available: int64(available),
	}
}
