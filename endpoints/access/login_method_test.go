package access_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/internal/authmethod/issuertest"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

func TestAuthMethod_NeverShowsItsSecrets(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
	stored := state.AuthMethod(s.Store.Read(), "corp")
	shown := endpointstest.Must(s.Server, access.AuthMethodGet,
		&access.AuthMethodGetRequest{Name: "corp"}).Method
	for name, m := range map[string]*access.AuthMethod{"the row": stored, "the answer": shown} {
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "client-secret") || m.Config.OIDCClientSecret != access.Redacted {
			t.Errorf("%s has the secret: %s", name, text)
		}
	}
	if shown.Sealed != nil || stored.Sealed == nil {
		t.Error("the sealed secrets are in the answer, or not in the row")
	}
	if strings.Contains(s.Raft.Text(), "client-secret") {
		t.Error("the log has the secret")
	}
	list := endpointstest.Must(s.Server, access.AuthMethodList, &structs.QueryRequest{
		QueryOptions: structs.QueryOptions{AuthToken: access.Anonymous},
	}).Methods
	if len(list) != 2 || list[0].Name != "ci" || !list[0].Default {
		t.Errorf("got the list %+v", list)
	}
}

// A change keeps what it leaves out: also the secret, for the same provider.
func TestAuthMethod_KeepsWhatAChangeLeavesOut(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
	s.Rule("corp", ``, access.BindRole, "ops")
	former := state.AuthMethod(s.Store.Read(), "corp")
	changed := s.PutMethod(&access.AuthMethod{Name: "corp", MaxTokenTTL: access.Duration(time.Minute)})
	if changed.Type != access.MethodOIDC || changed.Config.OIDCClientID != issuertest.Client ||
		changed.TokenNameFormat != former.TokenNameFormat || changed.CreateTime != former.CreateTime {
		t.Errorf("got %+v", changed)
	}
	shown := *changed
	shown.MaxTokenTTL = access.Duration(time.Hour)
	s.PutMethod(&shown) // with "redacted" in it, as tools send an answer back
	if string(state.AuthMethod(s.Store.Read(), "corp").Sealed.Data) != string(former.Sealed.Data) {
		t.Error("an unchanged secret was encrypted again")
	}
	endpointstest.Must(s.Server, access.CompleteAuth, begin(s))

	moved := s.OIDCMethod()
	moved.Config.OIDCDiscoveryURL = "https://evil.example.org"
	moved.Config.OIDCClientSecret = ""
	err := endpointstest.Rejected(s.Server, structs.KindInvalid, access.AuthMethodPut,
		&access.AuthMethodPutRequest{Method: moved})
	if !strings.Contains(err.Error(), "give OIDCClientSecret") {
		t.Errorf("another provider would get the secret: %v", err)
	}
	moved.Config.OIDCClientSecret = "new"
	s.PutMethod(moved)
}

func TestAuthMethod_RejectsWhatCannotWork(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
	for want, change := range map[string]func(*access.AuthMethod){
		"valid name":       func(m *access.AuthMethod) { m.Name = "a b" },
		"Type is":          func(m *access.AuthMethod) { m.Type = "LDAP" },
		"TokenLocality is": func(m *access.AuthMethod) { m.TokenLocality = "here" },
		"MaxTokenTTL is":   func(m *access.AuthMethod) { m.MaxTokenTTL = 0 },
		"expected 1s to": func(m *access.AuthMethod) {
			m.MaxTokenTTL = access.Duration(10000 * time.Hour)
		},
		"TokenNameFormat has ${value.x}": func(m *access.AuthMethod) { m.TokenNameFormat = "${value.x}" },
		"TokenNameFormat has 257": func(m *access.AuthMethod) {
			m.TokenNameFormat = strings.Repeat("x", 257)
		},
		"no Config": func(m *access.AuthMethod) { m.Config = nil },
		"stands for a stored secret": func(m *access.AuthMethod) {
			m.Config.OIDCClientSecret = access.Redacted
		},
		"digits and underscores": func(m *access.AuthMethod) {
			m.Config.ClaimMappings = map[string]string{"a": "a-b"}
		},
		"two claims": func(m *access.AuthMethod) {
			m.Config.ClaimMappings = map[string]string{"a": "x", "b": "x"}
		},
		"more than 100 keys": func(m *access.AuthMethod) {
			m.Config.DiscoveryCaPem = make([]string, 101)
		},
	} {
		m := s.OIDCMethod()
		m.Name = "new"
		change(m)
		err := endpointstest.Rejected(s.Server, structs.KindInvalid, access.AuthMethodPut,
			&access.AuthMethodPutRequest{Method: m})
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	second := s.JWTMethod()
	second.Name = "second"
	endpointstest.Rejected(s.Server, structs.KindConflict, access.AuthMethodPut,
		&access.AuthMethodPutRequest{Method: second})
	endpointstest.Rejected(s.Server, structs.KindInvalid, access.AuthMethodPut, &access.AuthMethodPutRequest{})
	endpointstest.Rejected(s.Server, structs.KindNotFound, access.AuthMethodGet,
		&access.AuthMethodGetRequest{Name: "none"})
	endpointstest.Rejected(s.Server, structs.KindNotFound, access.AuthMethodDelete,
		&access.AuthMethodDeleteRequest{Name: "none"})
	s.Keys.Remove("k1")
	fresh := s.OIDCMethod()
	fresh.Name = "fresh"
	err := endpointstest.Rejected(s.Server, structs.KindPrecondition, access.AuthMethodPut,
		&access.AuthMethodPutRequest{Method: fresh})
	if !strings.Contains(err.Error(), "keyring init") {
		t.Errorf("without a root key: got %v", err)
	}
	begin := &access.AuthURLRequest{AuthMethodName: "corp", RedirectURI: endpointstest.CallbackURI,
		ClientNonce: "0123456789abcdef"}
	endpointstest.Rejected(s.Server, structs.KindUnavailable, access.AuthURL, begin)
}

func TestBindingRule_IsCheckedAndChanged(t *testing.T) {
	s := endpointstest.NewLoginServer(t)
	r := s.Rule("ci", `value.user == "ann"`, access.BindPolicy, "reader")
	changed := endpointstest.Must(s.Server, access.BindingRulePut, &access.BindingRulePutRequest{
		Rule: &access.BindingRule{ID: r.ID, Description: "d"},
	}).Rule
	if changed.Selector != r.Selector || changed.BindName != "reader" || changed.Description != "d" {
		t.Errorf("got %+v, want another description and the former rest", changed)
	}
	changed = endpointstest.Must(s.Server, access.BindingRulePut, &access.BindingRulePutRequest{
		Rule: &access.BindingRule{ID: r.ID, BindType: access.BindManagement},
	}).Rule
	if changed.BindName != "" {
		t.Errorf("got %+v, want no name with everything", changed)
	}

	for want, rule := range map[string]*access.BindingRule{
		"BindType is":       {AuthMethod: "ci"},
		"BindName is empty": {AuthMethod: "ci", BindType: access.BindRole},
		"expected none":     {AuthMethod: "ci", BindType: access.BindManagement, BindName: "x"},
		"BindName has 257": {AuthMethod: "ci", BindType: access.BindRole, BindName: strings.Repeat("x",
			257)},
		"BindName has ${x}": {AuthMethod: "ci", BindType: access.BindRole, BindName: "${x}"},
		"Selector has 2049": {AuthMethod: "ci", BindType: access.BindRole, BindName: "x",
			Selector: strings.Repeat("x", 2049)},
		"Selector is not": {AuthMethod: "ci", BindType: access.BindRole, BindName: "x",
			Selector: "value =="},
		"Description has 257": {AuthMethod: "ci", BindType: access.BindRole, BindName: "x",
			Description: strings.Repeat("x", 257)},
		"for ever": {ID: r.ID, AuthMethod: "corp"},
	} {
		err := endpointstest.Rejected(s.Server, structs.KindInvalid, access.BindingRulePut,
			&access.BindingRulePutRequest{Rule: rule})
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	endpointstest.Rejected(s.Server, structs.KindPrecondition, access.BindingRulePut,
		&access.BindingRulePutRequest{
			Rule: &access.BindingRule{AuthMethod: "none", BindType: access.BindManagement},
		})
	endpointstest.Rejected(s.Server, structs.KindNotFound, access.BindingRulePut, &access.BindingRulePutRequest{
		Rule: &access.BindingRule{ID: "none", AuthMethod: "ci"},
	})
	if list := endpointstest.Must(s.Server, access.BindingRuleList,
		&structs.QueryRequest{}).Rules; len(list) != 1 {
		t.Errorf("got %d rules, want 1", len(list))
	}
	endpointstest.Must(s.Server, access.BindingRuleGet, &access.BindingRuleGetRequest{ID: r.ID})
	endpointstest.Must(s.Server, access.BindingRuleDelete, &access.BindingRuleDeleteRequest{ID: r.ID})
	endpointstest.Rejected(s.Server, structs.KindNotFound, access.BindingRuleGet,
		&access.BindingRuleGetRequest{ID: r.ID})
	endpointstest.Rejected(s.Server, structs.KindNotFound, access.BindingRuleDelete,
		&access.BindingRuleDeleteRequest{ID: r.ID})
}
