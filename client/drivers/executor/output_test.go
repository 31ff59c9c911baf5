package executor

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/logfile"
)

// A process outside the task holds the pipe open, and the copy is behind when the wait for the end is over.
func TestOutput_KeepsWhatIsInThePipe(t *testing.T) {
	dir := t.TempDir()
	logs := logfile.Config{Dir: dir, Task: "t", MaxFiles: 1, MaxFileSize: 1 << 20}
	s, err := openStream(Logs{Config: logs}, logfile.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	other, err := unix.Dup(int(s.w.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	want := bytes.Repeat([]byte("0123456789abcde\n"), 3000)
	if _, err := unix.Write(other, want); err != nil {
		t.Fatal(err)
	}
	if err := s.r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	o := &output{stdout: s}
	o.copyStream(s)
	o.close(0)
	got, err := os.ReadFile(filepath.Join(dir, "t.stdout.0"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d are in the log, %v", len(got), len(want), err)
	}
}
