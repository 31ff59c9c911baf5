package conf_test

import (
	"slices"
	"testing"

	"berth/internal/conf"
)

func TestChanged_NamesSettingsByTheirPaths(t *testing.T) {
	type inner struct {
		N int               `hcl:"n"`
		M map[string]string `hcl:"m"`
	}
	type list struct {
		Name string `hcl:",label"`
	}
	type config struct {
		Same    string  `hcl:"same"`
		Text    string  `hcl:"text"`
		Block   inner   `hcl:"block,block"`
		Pointer *inner  `hcl:"pointer,block"`
		Lists   []*list `hcl:"list,block"`
		Hidden  int
	}
	a := config{Text: "a", Pointer: &inner{N: 1}, Lists: []*list{{"x"}}}
	b := config{
		Text:    "b",
		Block:   inner{M: map[string]string{"k": "v"}},
		Pointer: &inner{N: 2},
		Lists:   []*list{{"y"}},
		Hidden:  1,
	}
	want := []string{"text", "block.m", "pointer.n", "list"}
	if got := conf.Changed(&a, &b); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := conf.Changed(&a, &a); got != nil {
		t.Errorf("equal configurations differ in %q", got)
	}
	b.Pointer = nil
	if got := conf.Changed(&a, &b); !slices.Contains(got, "pointer") {
		t.Errorf("a missing block is not named: %q", got)
	}
}
