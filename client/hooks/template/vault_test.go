package template

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"berth/consul/lookup"
	"berth/structs"
)

// ofVault returns an answer of Vault with values.
func ofVault(values map[string]any) *lookup.VaultAnswer {
	return &lookup.VaultAnswer{Data: values}
}

func TestSecrets_AreReadWithTheTokenOfTheTask(t *testing.T) {
	for text, want := range map[string]string{
		`{{ with secret "secret/db" }}{{ .Data.data.password }} {{ .Data.data.port }}{{ end }}`:               "p 5432",
		`{{ with secret "/kv/a" }}{{ .Data.x }}{{ end }}{{ with secret "" }}no{{ end }}`:                      "1",
		`{{ with secret "secret/db?version=3" }}{{ .Data.x }}{{ end }}`:                                       "old",
		`{{ with secret "pki/issue/w" "ttl=1h" "name=a=b" }}{{ .Data.certificate }}{{ end }}`:                 "pem",
		`{{ range secrets "secret/" }}{{ . }},{{ end }}{{ secrets "" | len }}`:                                "a,b,0",
		`{{ with secret "database/creds/app" }}{{ .LeaseID }} {{ .LeaseDuration }} {{ .Renewable }}{{ end }}`: "l1 60 true",
	} {
		withAnswers(t, reading(text), func(t *testing.T, fx *fixture, s *source) {
			fx.task.Vault = &structs.Vault{}
			s.answers = map[string]any{
				"secret secret/db": ofVault(map[string]any{
					"data": map[string]any{"password": "p", "port": json.Number("5432")}}),
				"secret kv/a":                ofVault(map[string]any{"x": json.Number("1")}),
				"secret secret/db?version=3": ofVault(map[string]any{"x": "old"}),
				"secret with pki/issue/w":    ofVault(map[string]any{"certificate": "pem"}),
				"secrets secret":             []string{"a", "b"},
				"secret database/creds/app":  &lookup.VaultAnswer{LeaseID: "l1", LeaseDuration: 60, Renewable: true},
			}
			fx.mustUp()
			fx.CheckFile("web/local/a", want)
		})
	}
}

// TestSecrets_BelongToOneTask: no other task of the node shares an answer, which its own token might not
// read.
func TestSecrets_BelongToOneTask(t *testing.T) {
	text := `{{ with secret "pki/issue/w" "b=2" "a=1" }}{{ end }}{{ key "k" }}` +
		`{{ range service "web" }}{{ end }}{{ range services }}{{ end }}{{ range ls "p" }}{{ end }}`
	withAnswers(t, reading(text), func(t *testing.T, fx *fixture, s *source) {
		fx.task.Vault = &structs.Vault{Namespace: "ns"}
		fx.task.Identities = []*structs.WorkloadIdentity{{Name: "consul_default"}}
		s.answers = map[string]any{
			"nssecret with pki/issue/w": ofVault(nil),
			"key k":                     pair("k", "k", "v"),
			"service web":               []*lookup.Service{},
			"services":                  []*lookup.ServiceName{},
			"keys below p":              []*lookup.KeyPair{},
		}
		h, _ := fx.mustUp()
		got := map[string]lookup.Query{}
		for _, a := range h.rec.Rendered["local/a"].Reads.Answers {
			got[a.Query.Kind] = a.Query
		}
		written := lookup.Query{
			Kind: lookup.VaultWrite, Name: "pki/issue/w", Namespace: "ns", As: "a/web", Values: `{"a":"1","b":"2"}`,
		}
		if got[lookup.VaultWrite] != written || len(got) != 5 {
			t.Errorf("got %+v", got)
		}
		for kind, q := range got {
			if q.As != "a/web" {
				t.Errorf("%s is asked as %q, want the task", kind, q.As)
			}
		}
	})
}

func TestSecrets_ChangeTheFile(t *testing.T) {
	withAnswers(t, reading(`{{ with secret "kv/a" }}{{ .Data.x }}{{ end }}`),
		func(t *testing.T, fx *fixture, s *source) {
			fx.task.Vault = &structs.Vault{}
			s.answers = map[string]any{"secret kv/a": ofVault(map[string]any{"x": "1"})}
			h, c := started(t, fx)
			s.set("secret kv/a", ofVault(map[string]any{"x": "2"}))
			checkActs(t, c, time.Minute, 1)
			fx.CheckFile("web/local/a", "2")
			h.Stopped()
		})
}

func TestSecrets_WithWrongTextsFail(t *testing.T) {
	for text, want := range map[string]string{
		`{{ secret "secret/../sys/mounts" }}`: "no path of a secret",
		`{{ secret "a?b=1" }}`:                "path?version=N",
		`{{ secret "a?version=1" "x=1" }}`:    "path?version=N",
		`{{ secret "a" "x" }}`:                "NAME=VALUE",
		`{{ secrets "./a" }}`:                 "no path of a secret",
	} {
		withAnswers(t, reading(text), func(t *testing.T, fx *fixture, _ *source) {
			fx.task.Vault = &structs.Vault{}
			h, _, err := fx.up()
			if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: want %q, got %v", text, want, err)
			}
			_ = h.Down(t.Context())
		})
	}
	if _, err := lookup.ParseSecret("a", []string{"x=" + strings.Repeat("y", 16<<10)}); err == nil {
		t.Error("values without a bound are written")
	}
	withAnswers(t, reading(`{{ secret "a" }}`), func(t *testing.T, fx *fixture, _ *source) {
		h, _, err := fx.up()
		if err == nil || !strings.Contains(err.Error(), "give it a block vault") {
			t.Errorf("without the block: %v", err)
		}
		_ = h.Down(t.Context())
	})
}
