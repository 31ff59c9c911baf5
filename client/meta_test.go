package client

import (
	"maps"
	"testing"
	"time"
)

// TestMeta_ReachesTheServersAtOnce sets metadata over that of the configuration.
func TestMeta_ReachesTheServersAtOnce(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		r.reload(func(c *Config) { c.Meta = map[string]string{"rack": "r1", "zone": "a"} })
		if _, err := Meta(r.client, map[string]*string{"rack": new("r2"), "zone": nil}); err != nil {
			t.Fatal(err)
		}
		r.pass(time.Second)
		if got := r.known().Meta; !maps.Equal(got, map[string]string{"rack": "r2"}) {
			t.Errorf("the servers know the metadata %v, want the rack r2 alone", got)
		}
		meta, err := Meta(r.client, nil)
		if err != nil || len(meta.Static) != 2 || len(meta.Dynamic) != 2 || meta.Meta["rack"] != "r2" {
			t.Errorf("the node has %+v, %v", meta, err)
		}
	})
}
