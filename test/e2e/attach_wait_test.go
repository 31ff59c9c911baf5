package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestStory_JobWhyShowsTheFailedAttachment checks that a watch of a job whose volume cannot be attached shows
// the failure in the words of the driver, and a command. The test mends the cause and runs that command. Then
// the watch succeeds.
func TestStory_JobWhyShowsTheFailedAttachment(t *testing.T) {
	t.Parallel()
	st := newStorage(t)
	a := newAgent(t, "one", "-server", "-client").allowRaw()
	a.start()
	a.must("job", "run", st.writePluginJob(a, "shelf", "system", "monolith"))
	st.createVolume(a, "v", 300)
	obstacle := filepath.Join(st.root, "vol", "shelf-v", "attached", "elsewhere")
	if err := os.WriteFile(obstacle, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(binary, "job", "run", "-timeout", "1m", a.writeJob(appendingJob("v", "one", "word")))
	cmd.Env = append(os.Environ(), "BERTH_ADDR=http://127.0.0.1:"+strconv.Itoa(a.http))
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		out.WriteString(lines.Text() + "\n")
		_, remedy, found := strings.Cut(lines.Text(), "-> to try now: berth ")
		if !found {
			continue
		}
		if !strings.Contains(out.String(), "volume shelf-v is attached to [elsewhere]") {
			t.Errorf("the failure is not in the words of the driver")
		}
		if err := os.Remove(obstacle); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
		a.must(strings.Fields(remedy)...)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("job run ends with %v:\n%s", err, out.String())
	}
	a.must("job", "stop", "-purge", "v")
	a.awaitFree("v")
	st.checkCallOrder()
}
