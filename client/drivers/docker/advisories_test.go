package docker

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"berth/structs"
)

// A node without volumes of the host mounts no path of the host through a link that a task or an artifact has
// put into the task's directory (CVE-2026-14891 of the peer).
func TestStart_MountsNothingThroughALinkWhereVolumesAreDisabled(t *testing.T) {
	bind := func(source string) map[string]any {
		return map[string]any{"mount": []any{map[string]any{"type": "bind", "source": source, "target": "/x"}}}
	}
	volume := func(source string) map[string]any { return map[string]any{"volumes": []any{source + ":/x"}} }
	for name, config := range map[string]map[string]any{
		"bind of a link":                    bind("local/link"),
		"volume of a link":                  volume("local/link"),
		"bind below a link":                 bind("local/link/cron.d"),
		"volume that is made below a link":  volume("local/link/new"),
		"bind of a link by a relative path": bind("local/relative"),
		"bind of a link to a link":          bind("local/second"),
		"bind of another task":              bind("../other/local"),
		"read-only volume of a link":        {"volumes": []any{"local/link:/x:ro"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			cfg := f.task("a1")
			host := t.TempDir()
			if err := os.Mkdir(filepath.Join(host, "cron.d"), 0o755); err != nil {
				t.Fatal(err)
			}
			relative, err := filepath.Rel(cfg.Dirs.Local, host)
			if err != nil {
				t.Fatal(err)
			}
			for link, target := range map[string]string{"link": host, "relative": relative, "second": "link"} {
				if err := os.Symlink(target, filepath.Join(cfg.Dirs.Local, link)); err != nil {
					t.Fatal(err)
				}
			}

			maps.Copy(cfg.Config, config)
			_, err = f.agent(f.config()).Start(t.Context(), cfg)
			if !structs.IsKind(err, structs.KindDenied) {
				t.Errorf("got %v", err)
			}
			if len(f.Containers()) > 0 {
				t.Error("there is a container")
			}
			if _, err := os.Stat(filepath.Join(host, "new")); err == nil {
				t.Error("a directory was made on the host")
			}
		})
	}
}

// A container on the bridge of a node sends no packets in the name of others, unless the node allows it
// (CVE-2021-32575 of the peer).
func TestStart_GivesNoRawSocketsByDefault(t *testing.T) {
	f := newFixture(t)
	h := f.created(f.config(), f.task("a1"), nil).HostConfig
	if slices.Contains(h.CapAdd, "CAP_NET_RAW") || !slices.Equal(h.CapDrop, []string{"ALL"}) {
		t.Errorf("the container gets %v and loses %v", h.CapAdd, h.CapDrop)
	}

	cfg := f.task("a2")
	cfg.Config["cap_add"] = []any{"net_raw"}
	_, err := f.agent(f.config()).Start(t.Context(), cfg)
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("a job that asks for raw sockets got %v", err)
	}
}
