package authmethod_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/internal/authmethod"
	"berth/structs"
	"berth/structs/access"
)

// claims are those of a login, as a decoder of JSON gives them.
func claims(t *testing.T, text string) map[string]any {
	t.Helper()
	var c map[string]any
	err := json.Unmarshal([]byte(text), &c)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func config() *access.AuthConfig {
	return &access.AuthConfig{
		ClaimMappings: map[string]string{
			"sub": "user", "id": "id", "admin": "admin", "/org/team": "team", "/a~1b": "slash",
			"/with": "with",
		},
		ListClaimMappings: map[string]string{"groups": "groups", "/org/roles": "roles", "one": "one"},
	}
}

func TestMap_CopiesClaimsByNamesAndPointers(t *testing.T) {
	got, err := authmethod.MapClaims(config(), claims(t, `{
		"sub": "ann", "id": 12345678901, "admin": true, "a/b": "s", "/with": "w", "one": "x", "other": {},
		"org": {"team": "storage", "roles": ["dev", 7]}, "groups": []
	}`))
	if err != nil {
		t.Fatal(err)
	}
	want := "map[admin:true id:12345678901 slash:s team:storage user:ann with:w] " +
		"map[groups:[] one:[x] roles:[dev 7]]"
	if text := fmt.Sprint(got.Value, " ", got.List); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestMap_DeniesValuesThatItCannotTake(t *testing.T) {
	many := `"` + strings.Join(slices.Repeat([]string{"g"}, 1001), `","`) + `"`
	for text, want := range map[string]string{
		`{"sub": {"x": 1}}`:                                 "ListClaimMappings",
		`{"sub": ["x"]}`:                                    "ListClaimMappings",
		`{"id": 9007199254740993000}`:                       "2^53",
		`{"sub": "` + strings.Repeat("x", 1025) + `"}`:      "1025 bytes",
		`{"groups": [` + many + `]}`:                        "1001 entries",
		`{"groups": [["x"]]}`:                               "a list or an object",
		`{"groups": ["` + strings.Repeat("x", 1025) + `"]}`: "1025 bytes",
	} {
		_, err := authmethod.MapClaims(config(), claims(t, text))
		if !structs.IsKind(err, structs.KindDenied) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want denied with %q", text, err, want)
		}
	}
}

func TestMatches_EvaluatesSelectors(t *testing.T) {
	c := &authmethod.Claims{
		Value: map[string]string{"user": "ann"},
		List:  map[string][]string{"groups": {"dev", "ops"}},
	}
	for selector, want := range map[string]string{
		``:                     "true",
		`value.user == "ann"`:  "true",
		`value.user != "ann"`:  "false",
		`"ops" in list.groups`: "true",
		`"hr" in list.groups`:  "false",
		`value.user matches "^a" and not ("x" in list.groups)`: "true",
		`value.missing == "x"`:                                 "false",
		`value.missing != "x"`:                                 "true",
		`user == "ann"`:                                        "invalid",
		`value.user ==`:                                        "invalid",
	} {
		ok, err := authmethod.Matches(selector, c)
		got := fmt.Sprint(ok)
		if err != nil {
			got = string(structs.KindOf(err))
		}
		if got != want {
			t.Errorf("%.60s: got %s (%v), want %s", selector, got, err, want)
		}
	}

	if err := authmethod.CheckSelector(`value.later == "x"`); err != nil {
		t.Errorf("a selector for a value that another login has: %v", err)
	}
	if err := authmethod.CheckSelector(`or`); !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("a selector that is no expression: got %v, want invalid", err)
	}
}

func TestDecide_GivesWhatTheMatchingRulesName(t *testing.T) {
	c := &authmethod.Claims{
		Value: map[string]string{"team": "storage"},
		List:  map[string][]string{"groups": {"dev"}},
	}
	rules := []*access.BindingRule{
		{ID: "1", BindType: access.BindPolicy, BindName: "team-${value.team}"},
		{ID: "2", BindType: access.BindRole, BindName: "dev", Selector: `"dev" in list.groups`},
		{ID: "3", BindType: access.BindManagement, Selector: `"root" in list.groups`},
		{ID: "4", BindType: access.BindPolicy, BindName: "${value.missing}"},
		{ID: "5", BindType: access.BindPolicy, BindName: "x", Selector: `value.missing == "x"`},
	}
	got := authmethod.DecideRights(slices.Values(rules), c)
	if text := fmt.Sprint(got); text != "{false [dev] [team-storage] [1 2]}" {
		t.Errorf("got %s", text)
	}

	rules[2].Selector = ""
	if !authmethod.DecideRights(slices.Values(rules), c).Management {
		t.Error("a rule for management gives nothing")
	}
}

func TestTokenName_FollowsTheFormatOfTheMethod(t *testing.T) {
	m := &access.AuthMethod{Name: "corp", Type: access.MethodOIDC, Config: config()}
	c := &authmethod.Claims{Value: map[string]string{"user": "ann"}}
	for format, want := range map[string]string{
		"":                                  "OIDC-corp",
		"${value.user}@${auth_method_name}": "ann@corp",
		"${value.team}-x":                   "-x",
		"${ value.user":                     "OIDC-corp",
		strings.Repeat("n", 300):            strings.Repeat("n", 250) + "…",
	} {
		m.TokenNameFormat = format
		got := authmethod.TokenName(m, c)
		if got != want || len(got) > 256 {
			t.Errorf("%q: got %q, want %q", format, got, want)
		}
	}
}

func TestCheckNames_RejectNamesThatNoLoginHas(t *testing.T) {
	m := &access.AuthMethod{Config: config()}
	for format, ok := range map[string]bool{
		"": true, "${auth_method_type}-${value.user}": true, "${value.nobody}": false, "${x": false,
	} {
		m.TokenNameFormat = format
		if err := authmethod.CheckNameFormat(m); (err == nil) != ok {
			t.Errorf("the format %q: %v", format, err)
		}
	}
	for name, ok := range map[string]bool{"a": true, "${value.x}": true, "${list.x}": false, "${": false} {
		if err := authmethod.CheckBindName(name); (err == nil) != ok {
			t.Errorf("the name %q: %v", name, err)
		}
	}
}
