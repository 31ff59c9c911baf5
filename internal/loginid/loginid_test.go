package loginid

import (
	"errors"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

func TestSettings_NameTheirFaults(t *testing.T) {
	for want, s := range map[string]Settings{
		"":             {Audience: []string{"vault.io"}, TTL: structs.MaxIdentityTTL, Env: true},
		"b.aud: it":    {Env: true},
		"b.aud: an":    {Audience: []string{""}},
		"b.aud: there": {Audience: strings.Split(strings.Repeat("a", structs.MaxAudiences+1), "")},
		"b.ttl: 59s":   {Audience: []string{"vault.io"}, TTL: structs.MinIdentityTTL - time.Second},
		"b.ttl: 24h":   {Audience: []string{"vault.io"}, TTL: structs.MaxIdentityTTL + time.Second},
	} {
		err := errors.Join(s.Faults("b")...)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want a fault with %q", s, err, want)
		}
	}
}

func TestSettings_HaveALifetime(t *testing.T) {
	own := Settings{TTL: time.Minute}
	if (&Settings{}).Lifetime() != structs.DefaultIdentityTTL || own.Lifetime() != time.Minute {
		t.Error("the default, or the time of the settings, is not used")
	}
}
