package signing

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/files"
	"berth/test/kit"
)

// The copy of the authority stays whole on a full disk, and is written once there is space.
func TestRun_OnAFullDiskKeepsTheCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.add()
		dir := kit.MountDisk(t, "1m")
		s := c.signer(dir, c.Store, c.ring)
		var log kit.Output
		s.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
		if err := s.keep(); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(s.file)
		if err != nil {
			t.Fatal(err)
		}

		free := kit.FillDisk(t, dir, 0)
		c.replace()
		if err := s.keep(); !files.IsNoSpace(err) {
			t.Errorf("got %v, want no space", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Run(ctx)
		}()
		time.Sleep(time.Minute)
		if now, err := os.ReadFile(s.file); err != nil || !bytes.Equal(now, before) {
			t.Errorf("the full disk has a copy of %d bytes (%v), and had one of %d", len(now), err, len(before))
		}
		told := log.String()
		if n := strings.Count(told, "failed to keep a copy"); n != 1 || !strings.Contains(told, "file="+s.file) ||
			!strings.Contains(told, "the file system "+dir+" has 0 B of ") {
			t.Errorf("the log has %d faults:\n%s", n, told)
		}

		free()
		time.Sleep(2 * retryInterval)
		cancel()
		<-done
		k, err := s.read()
		if err != nil || len(k.Authorities) != 2 {
			t.Errorf("with space: %+v (%v), want both authorities", k, err)
		}
	})
}
