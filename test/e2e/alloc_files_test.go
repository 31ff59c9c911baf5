package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// wantLines checks that a text is a number of lines, each with its number before a word.
func wantLines(t *testing.T, what, text string, n int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != n {
		t.Errorf("%s: got %d lines, want %d", what, len(lines), n)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, fmt.Sprint(i+1)+" ") {
			t.Fatalf("%s: line %d is %.80q", what, i+1, line)
		}
	}
}

// TestLogs_FollowRotations: followers get each byte of a log over many files and of a file that the task
// rotates, and end with the task, the file and the allocation.
func TestLogs_FollowRotations(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "one", "-server", "-client")
	a.start()
	const lines = 40_000 // 4 MB in files of 1 MB
	a.must("job", "run", a.writeJob(jobFile{
		name: "writer",
		kind: "batch",
		once: true,
		logs: "max_files = 10\nmax_file_size = 1",
		script: `
echo "1 first" > /local/own.log
await() { until [ -e /local/$1 ]; do sleep 0.1; done; }
await write
i=0
while [ $i -lt ` + fmt.Sprint(lines) + ` ]; do
  i=$((i + 1))
  echo "$i ..............................................................................................."
done
echo "1 beside" >&2
for i in 2 3 4 5; do
  await $i
  mv /local/own.log /local/own.log.1
  echo "$i rotated" > /local/own.log
done
await remove
rm /local/own.log
sleep 2`,
	}))
	alloc := a.awaitRunning("writer", 1)[0].ID
	followers := map[string][]string{
		"the log":         {"alloc", "logs", "-f", "-stdout", "-job", "writer"},
		"the errors":      {"alloc", "logs", "-f", "-stderr", alloc, "t"},
		"the end":         {"alloc", "fs", "-tail", "-f", alloc, "alloc/logs/t.stderr.0"},
		"both":            {"alloc", "logs", "-f", alloc},
		"the log, no end": {"alloc", "logs", "-f", "-n", "0", "-stdout", alloc},
	}
	eventually(t, "the file is there", func() error {
		_, err := a.run("alloc", "fs", alloc, "t/local/own.log")
		return err
	})
	type result struct {
		name, out string
		err       error
	}
	results := make(chan result)
	for name, args := range followers {
		go func() {
			out, err := a.run(args...)
			results <- result{name, out, err}
		}()
	}
	file := a.startCommand("alloc", "fs", "-f", alloc, "t/local/own.log")
	file.awaitText("1 first\n")
	a.must("alloc", "exec", alloc, "touch", "/local/write")
	for i := 2; i <= 5; i++ { // a file is gone after the next rotation
		a.must("alloc", "exec", alloc, "touch", fmt.Sprint("/local/", i))
		file.awaitText(fmt.Sprint(i, " rotated\n"))
	}
	a.must("alloc", "exec", alloc, "touch", "/local/remove")
	file.checkEnd(0)
	wantLines(t, "the file", file.out.String(), 5)
	want := map[string]int{"the log": lines, "the errors": 1, "the end": 1, "both": lines}
	for range followers {
		r := <-results
		if r.err != nil {
			t.Errorf("%s: %v", r.name, r.err)
		}
		if n, ok := want[r.name]; ok {
			wantLines(t, r.name, r.out, n)
		}
	}
	out := a.must("alloc", "logs", "-n", "3", alloc)
	if first := fmt.Sprint(lines-2) + " ."; !strings.HasPrefix(out, first) || strings.Count(out, "\n") != 3 {
		t.Errorf("the last 3 lines are %q", out)
	}
	out = a.must("alloc", "fs", "-H", alloc, "alloc/logs")
	if n := strings.Count(out, "t.stdout."); n < 4 {
		t.Errorf("the log has %d files, want 4 or more:\n%s", n, out)
	}
	a.mustFail(3, []string{"among the secrets"}, "alloc", "fs", alloc, "t/secrets")
	a.must("job", "stop", "-purge", "writer")
}
