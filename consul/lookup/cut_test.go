package lookup

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/backoff/cuttest"
)

// A query of the servers is asked again at the end of a cut between them and the node. One of Consul keeps
// its pauses: Consul was not behind the cut.
func TestFollow_TheEndOfACutEndsThePausesOfTheServersAlone(t *testing.T) {
	for name, c := range map[string]struct {
		query Query
		early bool
	}{
		"servers": {Query{Kind: BerthService, Name: "a"}, true},
		"consul":  {aKey, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cut cuttest.Cut
				s := newSource(func(_ Query, after uint64) (*Answer, error) {
					if after == 1 {
						return nil, nil
					}
					return &Answer{&KeyPair{}, 1}, cut.Attempt()
				})
				p := New(Config{
					Consul:      s,
					Servers:     s,
					ServersBack: &cut.Back,
					Logger:      hclog.NewNullLogger(),
				})
				defer runPool(t, p)()
				r := p.NewReader()
				defer r.Keep(nil)
				if _, err := r.Read(c.query); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * maxRetry)
				synctest.Wait()
				before, first, second := cut.Pauses()
				if before < maxRetry/2 || (first == 0) != c.early || (second <= minRetry) != c.early {
					t.Errorf("pauses: %s before the end of the cut, then %s and %s", before, first, second)
				}
			})
		})
	}
}
