package lookup

import (
	"strings"
	"testing"

	"berth/structs"
)

func TestParse_ReadsTheTextsOfTheDialect(t *testing.T) {
	inA := func(text string) (Query, error) { return ParseInstances("a", text) }
	namesOfA := func(text string) (Query, error) { return ParseNames("a", text) }
	for _, c := range []struct {
		parse func(string) (Query, error)
		text  string
		want  Query
		shown string
	}{
		{ParseService, "web", Query{Kind: ConsulService, Name: "web", Filter: "passing"}, "service web"},
		{
			ParseService, "a.b=c:1.web_1@dc-1.x~_agent|any",
			Query{ConsulService, "web_1", "a.b=c:1", "_agent", "dc-1.x", "any", "", "", "", ""},
			"service a.b=c:1.web_1@dc-1.x~_agent|any",
		},
		{
			ParseService, "web|warning,passing",
			Query{Kind: ConsulService, Name: "web", Filter: "passing,warning"},
			"service web|passing,warning",
		},
		{ParseServices, "", Query{Kind: ConsulServices}, "services"},
		{ParseServices, "@dc1", Query{Kind: ConsulServices, Place: "dc1"}, "services @dc1"},
		{ParseKey, "a/b c", Query{Kind: ConsulKey, Name: "a/b c"}, "key a/b c"},
		{ParseKey, "/a@dc1", Query{Kind: ConsulKey, Name: "a", Place: "dc1"}, "key a@dc1"},
		{ParseKeys, "a/", Query{Kind: ConsulKeys, Name: "a/"}, "keys below a/"},
		{inA, "web", Query{Kind: BerthService, Name: "web", Namespace: "a"}, "berthService web"},
		{
			inA, "v1.web@eu",
			Query{Kind: BerthService, Name: "web", Tag: "v1", Place: "eu", Namespace: "a"},
			"berthService v1.web@eu",
		},
		{namesOfA, "@eu", Query{Kind: BerthServices, Place: "eu", Namespace: "a"}, "berthServices @eu"},
	} {
		got, err := c.parse(c.text)
		if err != nil || got != c.want || got.String() != c.shown {
			t.Errorf("%s: got %+v (%s), %v", c.text, got, got, err)
		}
	}
	chosen, err := ParseChosen("a", "web", 2, "me")
	if err != nil || chosen.Choose != "2|me" || chosen.Name != "web" {
		t.Errorf("got %+v, %v", chosen, err)
	}
}

func TestParse_RejectsOtherTexts(t *testing.T) {
	inA := func(text string) (Query, error) { return ParseInstances("a", text) }
	choose := func(n int64, key string) func(string) (Query, error) {
		return func(text string) (Query, error) { return ParseChosen("a", text, n, key) }
	}
	long := strings.Repeat("x", maxName+1)
	for i, c := range []struct {
		parse func(string) (Query, error)
		text  string
	}{
		{ParseService, ""}, {ParseService, ".web"}, {ParseService, "web."}, {ParseService, "we b"},
		{ParseService, "web@"}, {ParseService, "web~"}, {ParseService, "web|"}, {ParseService, "web|sick"},
		{ParseService, "web~near@dc"}, {ParseService, "a/b"}, {ParseService, "wéb"}, {ParseService, long},
		{ParseService, long + ".web"}, {ParseService, "web@" + long},
		{ParseServices, "web"}, {ParseServices, "@"}, {ParseServices, "@a/b"},
		{ParseKey, ".."}, {ParseKey, "a/../../acl/tokens"}, {ParseKeys, "../status/leader"},
		{ParseKey, "a/./b"},
		{ParseKey, ""}, {ParseKey, "/"}, {ParseKey, "//a"}, {ParseKey, "a@"}, {ParseKey, "a@b@c"},
		{ParseKey, "a\x00"}, {ParseKey, long},
		{inA, ""}, {inA, ".web"}, {inA, "web@"}, {inA, "web|any"}, {inA, "web?namespace=b"},
		{choose(0, "k"), "web"}, {choose(1, ""), "web"}, {choose(1, long), "web"}, {choose(1, "k"), "a b"},
		{choose(maxChosen+1, "k"), "web"},
	} {
		_, err := c.parse(c.text)
		if !structs.IsKind(err, structs.KindInvalid) || len(err.Error()) > 300 {
			t.Errorf("%d: %.40q: got %.400v", i, c.text, err)
		}
	}
}
