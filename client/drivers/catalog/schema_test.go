package catalog

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"berth/client/drivers/protocol/hclspec"
)

type specs = map[string]*hclspec.Spec

func object(attributes specs) *hclspec.Spec {
	return &hclspec.Spec{Block: &hclspec.Spec_Object{Object: &hclspec.Object{Attributes: attributes}}}
}

func attr(typ string, required bool) *hclspec.Spec {
	return &hclspec.Spec{Block: &hclspec.Spec_Attr{Attr: &hclspec.Attr{Type: typ, Required: required}}}
}

func fallback(primary *hclspec.Spec, value string) *hclspec.Spec {
	literal := &hclspec.Spec{Block: &hclspec.Spec_Literal{Literal: &hclspec.Literal{Value: value}}}
	return &hclspec.Spec{Block: &hclspec.Spec_Default{
		Default: &hclspec.Default{Primary: primary, Default: literal},
	}}
}

func decode(t *testing.T, spec *hclspec.Spec, config map[string]any) (map[string]any, error) {
	t.Helper()
	schema, err := ParseSchema(spec)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := schema.Decode(config)
	if err != nil {
		return nil, err
	}
	var got map[string]any
	handle := &codec.MsgpackHandle{}
	handle.RawToString = true
	handle.MapType = reflect.TypeFor[map[string]any]()
	err = codec.NewDecoderBytes(packed, handle).Decode(&got)
	if err != nil {
		t.Fatal(err)
	}
	return got, nil
}

func TestDecode_ConvertsAndFillsIn(t *testing.T) {
	mount := object(specs{"source": attr("string", true), "readonly": fallback(attr("bool", false), "false")})
	spec := object(specs{
		"image": attr("string", true),
		"ports": attr("list(string)", false),
		"pids":  fallback(attr("number", false), "max(10, 20)"),
		"mount": {Block: &hclspec.Spec_BlockList{BlockList: &hclspec.BlockList{Nested: mount}}},
		"labels": {Block: &hclspec.Spec_BlockAttrs{
			BlockAttrs: &hclspec.BlockAttrs{Type: "string"},
		}},
	})
	got, err := decode(t, spec, map[string]any{
		"image":  "a:${v}",
		"ports":  []any{"http", 80},
		"mount":  []any{map[string]any{"source": "/x"}, map[string]any{"source": "/y", "readonly": true}},
		"labels": map[string]any{"a": "b"},
	})
	want := map[string]any{
		"image": "a:${v}",
		"ports": []any{"http", "80"},
		"pids":  int64(20),
		"mount": []any{
			map[string]any{"source": "/x", "readonly": false},
			map[string]any{"source": "/y", "readonly": true},
		},
		"labels": map[string]any{"a": "b"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// The parser of the agent's configuration makes a list of a nested block.
func TestDecode_TakesABlockAsAListOfOne(t *testing.T) {
	one := object(specs{"enabled": attr("bool", true)})
	spec := object(specs{
		"volumes": {Block: &hclspec.Spec_BlockValue{BlockValue: &hclspec.Block{Nested: one}}},
		"set":     {Block: &hclspec.Spec_BlockSet{BlockSet: &hclspec.BlockSet{Nested: one, MaxItems: 1}}},
		"auth": {Block: &hclspec.Spec_BlockMap{
			BlockMap: &hclspec.BlockMap{Labels: []string{"host"}, Nested: one},
		}},
		"limits": {Block: &hclspec.Spec_BlockAttrs{BlockAttrs: &hclspec.BlockAttrs{Type: "number"}}},
	})
	enabled := map[string]any{"enabled": true}
	got, err := decode(t, spec, map[string]any{
		"volumes": []any{enabled},
		"set":     []any{enabled},
		"auth":    []any{map[string]any{"example.com": enabled}},
		"limits":  []any{map[string]any{"files": 7}},
	})
	want := map[string]any{
		"volumes": enabled,
		"set":     []any{enabled},
		"auth":    map[string]any{"example.com": enabled},
		"limits":  map[string]any{"files": int64(7)},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	_, err = decode(t, spec, map[string]any{"volumes": []any{enabled, enabled}})
	if err == nil || !strings.Contains(err.Error(), "volumes") {
		t.Errorf("two blocks where one is allowed: %v", err)
	}
}

func TestDecode_TakesAMapAsAListOfOne(t *testing.T) {
	sysctl := fallback(attr("list(map(string))", false), "[]")
	block := object(specs{"sysctl": sysctl})
	spec := object(specs{
		"sysctl": sysctl,
		"block":  {Block: &hclspec.Spec_BlockValue{BlockValue: &hclspec.Block{Nested: block}}},
		"blocks": {Block: &hclspec.Spec_BlockList{BlockList: &hclspec.BlockList{Nested: block}}},
		"labels": attr("map(string)", false),
	})
	somaxconn := map[string]any{"net.core.somaxconn": "128"}
	asMap := map[string]any{"sysctl": somaxconn}
	asList := map[string]any{"sysctl": []any{somaxconn}}
	given := map[string]any{
		"sysctl": somaxconn,
		"block":  asMap,
		"blocks": []any{asMap, asList},
		"labels": somaxconn,
	}
	want := map[string]any{
		"sysctl": []any{somaxconn},
		"block":  asList,
		"blocks": []any{asList, asList},
		"labels": somaxconn,
	}
	got, err := decode(t, spec, given)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v, %v\nwant %v", got, err, want)
	}
	if !reflect.DeepEqual(asMap["sysctl"], somaxconn) || !reflect.DeepEqual(given["sysctl"], somaxconn) {
		t.Errorf("the configuration was changed: %v", given)
	}
	given["sysctl"] = map[string]any{}
	given["labels"] = []any{somaxconn}
	if _, err := decode(t, spec, given); err == nil || strings.Contains(err.Error(), "sysctl") ||
		!strings.Contains(err.Error(), "labels") {
		t.Errorf("a list where a map is expected: %v", err)
	}
}

func TestDecode_OfNothingHasTheDefaults(t *testing.T) {
	spec := object(specs{"pids": fallback(attr("number", false), "7")})
	for _, given := range []map[string]any{nil, {}} {
		got, err := decode(t, spec, given)
		if err != nil || !reflect.DeepEqual(got, map[string]any{"pids": int64(7)}) {
			t.Errorf("%v: got %v, %v", given, got, err)
		}
	}
	if got, err := decode(t, nil, nil); err != nil || len(got) != 0 {
		t.Errorf("without a schema: got %v, %v", got, err)
	}
}

func TestDecode_NamesEachFault(t *testing.T) {
	spec := object(specs{"image": attr("string", true), "pids": attr("number", false)})
	_, err := decode(t, spec, map[string]any{"pids": "many", "imaeg": "x"})
	for _, want := range []string{`"image"`, `"imaeg"`, "a number is required"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named: %v", want, err)
		}
	}
}

// The library panics for a value of any type in a map of blocks.
func TestDecode_SurvivesASchemaThatCannotBeUsed(t *testing.T) {
	nested := object(specs{"x": attr("any", false)})
	spec := object(specs{"m": {Block: &hclspec.Spec_BlockMap{
		BlockMap: &hclspec.BlockMap{Labels: []string{"name"}, Nested: nested},
	}}})
	_, err := decode(t, spec, map[string]any{"m": map[string]any{"a": map[string]any{"x": 1}}})
	if err == nil || !strings.Contains(err.Error(), "the schema cannot be used") {
		t.Errorf("got %v", err)
	}
}

func TestParse_RejectsABadSchema(t *testing.T) {
	deep := attr("string", false)
	for range 100 {
		deep = object(specs{"x": deep})
	}
	long := strings.Repeat("(", 1_000_000)
	loops := strings.Repeat("[for x in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] : ", 2) + "1" + strings.Repeat("]", 2)
	calls := strings.Repeat("jsonencode(", maxCalls+1) + "1" + strings.Repeat(")", maxCalls+1)
	cases := specs{
		"the type has 2000006 bytes":    object(specs{"x": attr(strings.Repeat("list(", 400_000)+"string", false)}),
		"the literal has 1000000 bytes": object(specs{"x": fallback(attr("", false), long)}),
		"has a loop":                    object(specs{"x": fallback(attr("", false), loops)}),
		"more than 8 calls":             object(specs{"x": fallback(attr("", false), calls)}),
		"nested more":                   deep,
		"the type":                      object(specs{"x": attr("strong", false)}),
		"the literal":                   object(specs{"x": fallback(attr("string", false), "${")}),
		"no name":                       attr("string", false),
		"no kind":                       {},
	}
	for name, spec := range cases {
		_, err := ParseSchema(spec)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestParse_NamesTheFirstFaults(t *testing.T) {
	many := specs{}
	for i := range 1000 {
		many[fmt.Sprint(i)] = attr("strong", false)
	}
	_, err := ParseSchema(object(many))
	if err == nil || strings.Count(err.Error(), "strong") < maxFaults || len(err.Error()) > 4096 {
		t.Errorf("got %.5000v", err)
	}
}
