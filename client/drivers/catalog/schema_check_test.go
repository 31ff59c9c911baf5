package catalog

import (
	"strings"
	"testing"

	"berth/client/drivers/protocol/hclspec"
)

func check(t *testing.T, config map[string]any) error {
	t.Helper()
	mount := object(specs{"source": attr("string", true), "readonly": fallback(attr("bool", false), "false")})
	schema, err := ParseSchema(object(specs{
		"image":  attr("string", true),
		"ports":  attr("list(string)", false),
		"pids":   fallback(attr("number", false), "20"),
		"any":    attr("any", false),
		"mount":  {Block: &hclspec.Spec_BlockList{BlockList: &hclspec.BlockList{Name: "mount", Nested: mount}}},
		"labels": {Block: &hclspec.Spec_BlockAttrs{BlockAttrs: &hclspec.BlockAttrs{Type: "string"}}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Check(config)
}

// Texts that are templates in HCL are texts here.
func TestCheck_LeavesValuesWithReferencesOpen(t *testing.T) {
	err := check(t, map[string]any{
		"image": "${meta.image",
		"ports": []any{"${meta.port}", "%{ if }", 80},
		"pids":  "${meta.pids}",
		"any":   []any{"${", map[string]any{"${a": "%{", "%{b": 1, "c": nil}},
		"mount": []any{
			map[string]any{"source": "%%{x", "readonly": "${meta.readonly}"},
			map[string]any{"source": "${x}"},
		},
		"labels": map[string]any{"a": "$${b}"},
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCheck_NamesOtherFaultsOfAConfigWithReferences(t *testing.T) {
	err := check(t, map[string]any{
		"imaeg": "${meta.image}",
		"ports": "${meta.ports}",
		"pids":  "many",
		"mount": []any{map[string]any{"readonly": "${meta.readonly}", "raedonly": "${x}"}},
	})
	for _, want := range []string{
		`"image"`, `"imaeg"`, "list of string required", "a number is required", `"source"`, `"raedonly"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named: %v", want, err)
		}
	}
	err = check(t, map[string]any{"pids": "7"})
	if err == nil || !strings.Contains(err.Error(), `"image"`) {
		t.Errorf("a config without references: %v", err)
	}
}
