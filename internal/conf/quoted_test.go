package conf

import (
	"maps"
	"strings"
	"testing"
)

func TestBlockOfAMap_MayHaveQuotedKeys(t *testing.T) {
	for name, c := range map[string]struct {
		src  string
		want map[string]string
	}{
		"quoted":      {"meta {\n  \"example.com/z\" = \"a\"\n}", map[string]string{"example.com/z": "a"}},
		"in one line": {"meta { \"x/y\" = \"a\" }", map[string]string{"x/y": "a"}},
		"among others": {"meta {\n  r = \"r\" # x\n  \"x/y\" = \"a\"\n}",
			map[string]string{"r": "r", "x/y": "a"}},
		"none":               {"meta {\n  rack = \"r\"\n}", map[string]string{"rack": "r"}},
		"an argument":        {"meta = {\n  \"x/y\" = \"a\"\n}", map[string]string{"x/y": "a"}},
		"after a comment":    {"# meta {\nmeta {\n  # one\n  \"x/y\" = \"}{\"\n}", map[string]string{"x/y": "}{"}},
		"a quote in a value": {"meta {\n  a = \"${\"x\"}\"\n}", map[string]string{"a": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			var s sample
			if err := Decode("f.hcl", []byte("name = \"n\"\n"+c.src), &s, nil); err != nil || !maps.Equal(s.Meta, c.want) {
				t.Errorf("got %v, %v, want %v", s.Meta, err, c.want)
			}
		})
	}
	var s sample
	err := Decode("f.hcl", []byte("name = \"n\"\nmeta { \"x/y\" = 1 + }"), &s, nil)
	if err == nil || !strings.Contains(err.Error(), "f.hcl:2,20") {
		t.Errorf("got %v, want a fault at f.hcl:2,20", err)
	}
}
