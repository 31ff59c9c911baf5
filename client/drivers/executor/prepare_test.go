package executor

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
)

// stuckSupervisor is a script with a record that nobody can read. It takes no spec, gives no answer, and ends
// once DIR has a file end.
const stuckSupervisor = `
	echo $$ >DIR/pid
	echo "{" >$0/task.json
	exec <&- 4>&-
	while test -d DIR && ! test -e DIR/end; do sleep 0.01; done`

// A task fails before its start, and cannot be destroyed. The next Destroy of its ID reaps the supervisor.
func TestDestroy_ReapsWhatFailedBeforeItsStart(t *testing.T) {
	id := strings.Repeat("t", 1<<20) // a spec with it waits for a reader
	for name, fail := range map[string]func(*Tasks) error{
		"prepare": func(ts *Tasks) error { return ts.Prepare(t.Context(), &driver.TaskConfig{ID: id}) },
		"launch": func(ts *Tasks) error {
			_, err := ts.Launch(t.Context(), &Spec{TaskID: id})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			script := strings.ReplaceAll(stuckSupervisor, "DIR", dir)
			ts := NewTasks("test", Config{Dir: t.TempDir(), Command: []string{"/bin/sh", "-c", script}}, CgroupConfig{})
			if err := fail(ts); err == nil || !strings.Contains(err.Error(), recordFile) {
				t.Fatalf("got %v, want also the failure to destroy the task", err)
			}
			if err := os.Remove(filepath.Join(ts.DirOf(id), recordFile)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "end"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := ts.Destroy(context.Background(), id, nil); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "pid"))
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.Kill(pid, 0); err != unix.ESRCH {
				t.Errorf("the supervisor is not reaped: %v", err)
			}
		})
	}
}
