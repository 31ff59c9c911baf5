package agent

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/test/kit"
)

// The first start of an agent needs space for files that a later one has. Without it the agent waits, and
// goes on by itself.
func TestStart_OnAFullDiskWaitsForSpace(t *testing.T) {
	for name, parts := range map[string][]string{
		"a node":              {"-client", "-servers", "127.0.0.1:1"},
		"a node and a server": {"-client", "-server"},
	} {
		t.Run(name, func(t *testing.T) {
			disk := kit.MountDisk(t, "200m")
			dir := filepath.Join(disk, "data")
			if err := os.Mkdir(dir, 0o711); err != nil {
				t.Fatal(err)
			}
			free := kit.FillDisk(t, dir, 0)
			args := slices.Concat(parts, []string{
				"-bind", "127.0.0.1", "-network-interface", "lo",
				"-http-port", "0", "-rpc-port", "0", "-serf-port", "0",
				"-data-dir", dir,
			})
			run := func() (out, log *logBuffer, stop func() int) {
				out, log = newLogBuffer(), newLogBuffer()
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan int, 1)
				go func() { ended <- runCommandLine(ctx, out, log, args...) }()
				return out, log, func() int {
					cancel()
					return <-ended
				}
			}

			_, log, stop := run()
			log.await(t, "no space on the disk for the start of the agent, waiting for it")
			if code := stop(); code != 0 {
				t.Errorf("the exit code of an agent that is told to stop while it waits is %d", code)
			}

			out, log, stop := run()
			line := log.await(t, "no space on the disk for the start of the agent, waiting for it")
			for _, says := range []string{"file=" + dir + "/", "the file system " + disk + " has 0 B of ", "filler "} {
				if !strings.Contains(line, says) {
					t.Errorf("the log says %q, want %q in it", line, says)
				}
			}
			free()
			out.await(t, "HTTP API:")
			log.await(t, "the disk has space for the start of the agent, going on")
			for _, file := range []string{"client/node-id", "client/secret-id", "client/client.db"} {
				info, err := os.Stat(filepath.Join(dir, file))
				if err != nil || info.Size() == 0 {
					t.Errorf("after the start: %v", err)
				}
			}
			if code := stop(); code != 0 {
				t.Errorf("the exit code is %d", code)
			}
		})
	}
}
