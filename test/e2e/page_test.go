package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// The page of an agent shows its volumes, and each with its writer.
func TestStory_PageShowsAVolumeWithItsWriter(t *testing.T) {
	t.Parallel()
	a := agentWithVolume(t)
	a.must("job", "run", example(t, "counter.hcl"))
	alloc := a.awaitRunning("counter", 1)[0].ID
	for path, want := range map[string][]string{
		"/ui/":                       {"<html", "/ui/volumes"},
		"/ui/volumes":                {"counter"},
		"/ui/volume?id=counter":      {"counter", alloc[:8]},
		"/ui/volume?id=none-of-this": {"none-of-this"},
	} {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", a.http, path))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s (%s) lacks %q:\n%s", path, resp.Status, w, text)
			}
		}
	}
	stopWithVolume(a, "counter")
}
