package peertls

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/pki"
	"berth/internal/pki/pkitest"
)

func TestKeys_AServerWarnsOnceADayThatTheAuthorityEnds(t *testing.T) {
	a := pkitest.New(t, "global")
	keys := open(t, a, pki.RoleServer, "s1")
	authority := keys.current.Load().authorities[0]
	begin := authority.NotAfter.Add(-authority.NotAfter.Sub(authority.NotBefore) / 10)
	warnings := func(k *Keys, times ...time.Time) int {
		var b bytes.Buffer
		var w authorityWarning
		k.logger = hclog.New(&hclog.LoggerOptions{Output: &b})
		for _, now := range times {
			w.tell(k, now)
		}
		return strings.Count(b.String(), "[WARN]  the authority of the TLS certificates ends soon")
	}
	for _, c := range []struct {
		name string
		told int
		want int
	}{
		{"before", warnings(keys, begin.Add(-time.Minute)), 0},
		{"from then on", warnings(keys, begin.Add(time.Minute)), 1},
		{"within a day", warnings(keys, begin.Add(time.Minute), begin.Add(time.Hour)), 1},
		{"each day", warnings(keys, begin.Add(time.Minute), begin.Add(25*time.Hour)), 2},
		{"on a node", warnings(open(t, a, pki.RoleNode, "n1"), begin.Add(time.Minute)), 0},
	} {
		if c.told != c.want {
			t.Errorf("%s: %d warnings; expected %d", c.name, c.told, c.want)
		}
	}

	// An authority for years warns in its last 60 days.
	long := *authority
	long.NotBefore = authority.NotAfter.Add(-5 * 365 * 24 * time.Hour)
	if noticeOf(&long) != longestNotice {
		t.Errorf("an authority for five years warns %s before its end", noticeOf(&long))
	}
}
