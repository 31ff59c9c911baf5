package docker

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/client/drivers/docker/dockertest"
	"berth/structs"
)

// A task that could write to the directory above its own ones could replace them by links. The agent and the
// daemon follow some of them at the next start.
func TestStart_MountsTheDirectoryOfTheTaskReadOnly(t *testing.T) {
	bindOf := func(source string, readOnly bool) map[string]any {
		return map[string]any{"mount": []any{map[string]any{
			"type": "bind", "source": source, "target": "/x", "readonly": readOnly,
		}}}
	}
	volume := func(v string) map[string]any { return map[string]any{"volumes": []any{v}} }
	for name, c := range map[string]struct {
		config map[string]any
		good   bool
	}{
		"a volume":                   {volume(".:/x"), false},
		"a volume for writing":       {volume("./:/x:rw"), false},
		"a volume by another path":   {volume("local/..:/x"), false},
		"a volume by a link":         {volume("local/up:/x"), false},
		"a mount":                    {bindOf(".", false), false},
		"a read-only volume":         {volume(".:/x:ro"), true},
		"a read-only mount":          {bindOf(".", true), true},
		"a volume of a directory":    {volume("data:/x"), true},
		"a mount of local by a path": {bindOf("./local/", false), true},
	} {
		f := newFixture(t)
		cfg := f.task("a1")
		if err := os.Symlink("..", filepath.Join(cfg.Dirs.Local, "up")); err != nil {
			t.Fatal(err)
		}
		for key, value := range c.config {
			cfg.Config[key] = value
		}
		_, err := f.agent(f.config()).Start(t.Context(), cfg)
		if c.good && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		denied := structs.IsKind(err, structs.KindDenied) && strings.Contains(err.Error(), "read-only")
		if !c.good && !denied {
			t.Errorf("%s: got %v, want a denied mount", name, err)
		}
	}
}

func TestStart_LoadsNoArchiveBehindALinkInThePlaceOfLocal(t *testing.T) {
	f := newFixture(t)
	f.Handle("POST /images/load", func(http.ResponseWriter, *http.Request) {
		t.Error("the daemon gets an archive of the host")
	})
	cfg := f.task("a1")
	cfg.Config = map[string]any{"image": "a:1", "load": "image.tar"}
	outside := t.TempDir()
	archive := dockertest.Saved(t, []dockertest.SavedImage{{RepoTags: []string{"a:1"}}})
	for _, err := range []error{
		os.WriteFile(filepath.Join(outside, "image.tar"), archive, 0o600),
		os.Remove(cfg.Dirs.Local),
		os.Symlink(outside, cfg.Dirs.Local),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := f.agent(f.config()).Start(t.Context(), cfg)
	if err == nil {
		t.Error("the task was started")
	}
}
