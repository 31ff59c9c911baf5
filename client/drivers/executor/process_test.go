package executor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
)

// A kill decides on the fields of /proc/<pid>/stat. A program chooses its name, which is in front of them.
func TestProcStat_WithAnOddName(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "42", "stat")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	proc, err := procfs.NewFS(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"sh", "", "two words", "(sh)", "a) Z 1 (b", "))((", "a\n43 (b) Z 1", " ) S 1 1 1"}
	for _, name := range names {
		before := strings.Repeat("0 ", 13)
		after := strings.Repeat(" 0", 22)
		text := fmt.Sprintf("42 (%s) S 7 42 41 0 -1 %s900%s\n", name, before, after)
		p, err := proc.Proc(42)
		if err := errors.Join(err, os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		s, err := p.Stat()
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if got, want := refFrom(s), (procRef{PID: 42, Start: 900}); got != want {
			t.Errorf("%q: got %+v, want %+v", name, got, want)
		}
		if s.PPID != 7 || s.Session != 41 || s.State != "S" || s.Comm != name {
			t.Errorf("%q: got parent %d, session %d, state %s, name %q", name, s.PPID, s.Session, s.State, s.Comm)
		}
	}
}
