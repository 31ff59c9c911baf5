package endpoints_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"berth/internal/authmethod/issuertest"
	"berth/state/acls"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/login"
)

func TestAuthMethod_NeverShowsItsSecrets(t *testing.T) {
	s := newLoginServer(t)
	stored := acls.AuthMethod(s.Store.Read(), "corp")
	shown := must(s.server, login.AuthMethodGet, &login.AuthMethodGetRequest{Name: "corp"}).Method
	for name, m := range map[string]*login.AuthMethod{"the row": stored, "the answer": shown} {
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "client-secret") || m.Config.OIDCClientSecret != login.Redacted {
			t.Errorf("%s has the secret: %s", name, text)
		}
	}
	if shown.Sealed != nil || stored.Sealed == nil {
		t.Error("the sealed secrets are in the answer, or not in the row")
	}
	if strings.Contains(s.Raft.Log.String(), "client-secret") {
		t.Error("the log has the secret")
	}
	list := must(s.server, login.AuthMethodList, &structs.QueryRequest{
		QueryOptions: structs.QueryOptions{AuthToken: access.Anonymous},
	}).Methods
	if len(list) != 2 || list[0].Name != "ci" || !list[0].Default {
		t.Errorf("got the list %+v", list)
	}
}

// A change keeps what it leaves out: also the secret, for the same provider.
func TestAuthMethod_KeepsWhatAChangeLeavesOut(t *testing.T) {
	s := newLoginServer(t)
	s.rule("corp", ``, login.BindRole, "ops")
	former := acls.AuthMethod(s.Store.Read(), "corp")
	changed := s.putMethod(&login.AuthMethod{Name: "corp", MaxTokenTTL: login.Duration(time.Minute)})
	if changed.Type != login.TypeOIDC || changed.Config.OIDCClientID != issuertest.Client ||
		changed.TokenNameFormat != former.TokenNameFormat || changed.CreateTime != former.CreateTime {
		t.Errorf("got %+v", changed)
	}
	shown := *changed
	shown.MaxTokenTTL = login.Duration(time.Hour)
	s.putMethod(&shown) // with "redacted" in it, as tools send an answer back
	if string(acls.AuthMethod(s.Store.Read(), "corp").Sealed.Data) != string(former.Sealed.Data) {
		t.Error("an unchanged secret was encrypted again")
	}
	must(s.server, login.CompleteAuth, s.begin())

	moved := s.oidcMethod()
	moved.Config.OIDCDiscoveryURL = "https://evil.example.org"
	moved.Config.OIDCClientSecret = ""
	err := rejected(s.server, structs.KindInvalid, login.AuthMethodPut,
		&login.AuthMethodPutRequest{Method: moved})
	if !strings.Contains(err.Error(), "give OIDCClientSecret") {
		t.Errorf("another provider would get the secret: %v", err)
	}
	moved.Config.OIDCClientSecret = "new"
	s.putMethod(moved)
}

func TestAuthMethod_RejectsWhatCannotWork(t *testing.T) {
	s := newLoginServer(t)
	for want, change := range map[string]func(*login.AuthMethod){
		"valid name":                     func(m *login.AuthMethod) { m.Name = "a b" },
		"Type is":                        func(m *login.AuthMethod) { m.Type = "LDAP" },
		"TokenLocality is":               func(m *login.AuthMethod) { m.TokenLocality = "here" },
		"MaxTokenTTL is":                 func(m *login.AuthMethod) { m.MaxTokenTTL = 0 },
		"expected 1s to":                 func(m *login.AuthMethod) { m.MaxTokenTTL = login.Duration(10000 * time.Hour) },
		"TokenNameFormat has ${value.x}": func(m *login.AuthMethod) { m.TokenNameFormat = "${value.x}" },
		"TokenNameFormat has 257":        func(m *login.AuthMethod) { m.TokenNameFormat = strings.Repeat("x", 257) },
		"no Config":                      func(m *login.AuthMethod) { m.Config = nil },
		"stands for a stored secret":     func(m *login.AuthMethod) { m.Config.OIDCClientSecret = login.Redacted },
		"digits and underscores":         func(m *login.AuthMethod) { m.Config.ClaimMappings = map[string]string{"a": "a-b"} },
		"two claims":                     func(m *login.AuthMethod) { m.Config.ClaimMappings = map[string]string{"a": "x", "b": "x"} },
		"more than 100 keys":             func(m *login.AuthMethod) { m.Config.DiscoveryCaPem = make([]string, 101) },
	} {
		m := s.oidcMethod()
		m.Name = "new"
		change(m)
		err := rejected(s.server, structs.KindInvalid, login.AuthMethodPut,
			&login.AuthMethodPutRequest{Method: m})
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	second := s.jwtMethod()
	second.Name = "second"
	rejected(s.server, structs.KindConflict, login.AuthMethodPut, &login.AuthMethodPutRequest{Method: second})
	rejected(s.server, structs.KindInvalid, login.AuthMethodPut, &login.AuthMethodPutRequest{})
	rejected(s.server, structs.KindNotFound, login.AuthMethodGet, &login.AuthMethodGetRequest{Name: "none"})
	rejected(s.server, structs.KindNotFound, login.AuthMethodDelete,
		&login.AuthMethodDeleteRequest{Name: "none"})
	s.Keys.Remove("k1")
	fresh := s.oidcMethod()
	fresh.Name = "fresh"
	err := rejected(s.server, structs.KindPrecondition, login.AuthMethodPut,
		&login.AuthMethodPutRequest{Method: fresh})
	if !strings.Contains(err.Error(), "keyring init") {
		t.Errorf("without a root key: got %v", err)
	}
	begin := &login.AuthURLRequest{AuthMethodName: "corp", RedirectURI: callbackURI,
		ClientNonce: "0123456789abcdef"}
	rejected(s.server, structs.KindUnavailable, login.AuthURL, begin)
}

func TestBindingRule_IsCheckedAndChanged(t *testing.T) {
	s := newLoginServer(t)
	r := s.rule("ci", `value.user == "ann"`, login.BindPolicy, "reader")
	changed := must(s.server, login.BindingRulePut, &login.BindingRulePutRequest{
		Rule: &login.BindingRule{ID: r.ID, Description: "d"},
	}).Rule
	if changed.Selector != r.Selector || changed.BindName != "reader" || changed.Description != "d" {
		t.Errorf("got %+v, want another description and the former rest", changed)
	}
	changed = must(s.server, login.BindingRulePut, &login.BindingRulePutRequest{
		Rule: &login.BindingRule{ID: r.ID, BindType: login.BindManagement},
	}).Rule
	if changed.BindName != "" {
		t.Errorf("got %+v, want no name with everything", changed)
	}

	for want, rule := range map[string]*login.BindingRule{
		"BindType is":       {AuthMethod: "ci"},
		"BindName is empty": {AuthMethod: "ci", BindType: login.BindRole},
		"expected none":     {AuthMethod: "ci", BindType: login.BindManagement, BindName: "x"},
		"BindName has 257": {AuthMethod: "ci", BindType: login.BindRole, BindName: strings.Repeat("x",
			257)},
		"BindName has ${x}": {AuthMethod: "ci", BindType: login.BindRole, BindName: "${x}"},
		"Selector has 2049": {AuthMethod: "ci", BindType: login.BindRole, BindName: "x",
			Selector: strings.Repeat("x", 2049)},
		"Selector is not": {AuthMethod: "ci", BindType: login.BindRole, BindName: "x",
			Selector: "value =="},
		"Description has 257": {AuthMethod: "ci", BindType: login.BindRole, BindName: "x",
			Description: strings.Repeat("x", 257)},
		"for ever": {ID: r.ID, AuthMethod: "corp"},
	} {
		err := rejected(s.server, structs.KindInvalid, login.BindingRulePut,
			&login.BindingRulePutRequest{Rule: rule})
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	rejected(s.server, structs.KindPrecondition, login.BindingRulePut, &login.BindingRulePutRequest{
		Rule: &login.BindingRule{AuthMethod: "none", BindType: login.BindManagement},
	})
	rejected(s.server, structs.KindNotFound, login.BindingRulePut, &login.BindingRulePutRequest{
		Rule: &login.BindingRule{ID: "none", AuthMethod: "ci"},
	})
	if list := must(s.server, login.BindingRuleList, &structs.QueryRequest{}).Rules; len(list) != 1 {
		t.Errorf("got %d rules, want 1", len(list))
	}
	must(s.server, login.BindingRuleGet, &login.BindingRuleGetRequest{ID: r.ID})
	must(s.server, login.BindingRuleDelete, &login.BindingRuleDeleteRequest{ID: r.ID})
	rejected(s.server, structs.KindNotFound, login.BindingRuleGet, &login.BindingRuleGetRequest{ID: r.ID})
	rejected(s.server, structs.KindNotFound, login.BindingRuleDelete,
		&login.BindingRuleDeleteRequest{ID: r.ID})
}
