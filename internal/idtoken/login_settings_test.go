package idtoken

import (
	"errors"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

func TestSettings_NameTheirFaults(t *testing.T) {
	for want, s := range map[string]LoginSettings{
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
	own := LoginSettings{TTL: time.Minute}
	if (&LoginSettings{}).Lifetime() != structs.DefaultIdentityTTL || own.Lifetime() != time.Minute {
		t.Error("the default, or the time of the settings, is not used")
	}
}

func TestCheckMethod_BoundsTheName(t *testing.T) {
	longest := strings.Repeat("a", maxMethodName)
	for _, name := range []string{"berth-workloads", longest} {
		if err := CheckLoginMethod("consul.service_auth_method", name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "a b", longest + "a"} {
		err := CheckLoginMethod("consul.service_auth_method", name)
		if err == nil || !strings.HasPrefix(err.Error(), "consul.service_auth_method: ") {
			t.Errorf("%q: got %v, want a fault that names the setting", name, err)
		}
	}
}
