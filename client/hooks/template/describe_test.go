package template

import (
	"context"
	"io"
	"reflect"
	"strings"
	"testing"

	"berth/consul/lookup"
	"berth/internal/gotext"
	"berth/structs"
)

// The errors of a text become events of the task, and the values of the text may be secret.
func TestRender_ErrorsHaveNoValues(t *testing.T) {
	const secret = "hunter2"
	fx := newFixture(t)
	fx.MustWrite("web/secrets/token", secret)
	for text, want := range map[string]string{
		`{{ parseInt (file "secrets/token") }}`:                    "text:1:3: executing",
		`{{ parseBool (file "secrets/token") }}`:                   "error calling parseBool: it failed",
		`{{ file "secrets/token" | parseJSON }}`:                   "error calling parseJSON: it failed",
		`{{ file "secrets/token" | base64Decode }}`:                "error calling base64Decode: it failed",
		"x\n{{ range file \"secrets/token\" }}{{ end }}":           "text:2:9: executing",
		`{{ with $x := file "secrets/token" }}{{ $x.a }}{{ end }}`: "can't evaluate field a in type string",
		`{{ add 1 (file "secrets/token") }}`:                       "error calling add: ",
		`{{ index (split "" (file "secrets/token")) 99 }}`:         "error calling index: it failed",
		`{{ mustEnv "NOPE" }}`:                                     "the variable NOPE is empty or not set",
	} {
		_, _, err := fx.render(text)
		if err == nil || !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s: got %v", text, err)
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestRender_MissingKeysHaveTheirNames(t *testing.T) {
	fx := newFixture(t)
	_, _, err := fx.render(`{{ (parseJSON "{}").port }}`, func(t *structs.Template) { t.ErrMissingKey = true })
	if err == nil || !strings.Contains(err.Error(), `map has no entry for key "port"`) {
		t.Errorf("got %v", err)
	}
}

// A text may call each method of the values that only texts use.
func TestMethods_OfValuesAreCallable(t *testing.T) {
	for _, v := range []any{
		&scratch{}, lookup.VariableItems{}, lookup.VariableItem{}, lookup.NanoTime(0), &lookup.VariableMeta{},
	} {
		for m := range reflect.TypeOf(v).Methods() {
			set, err := gotext.Parse("x", "{{ ."+m.Name+" }}", gotext.Config{
				Methods:     valueMethods,
				FailMissing: true, // a map has no key with the name
			})
			if err != nil {
				t.Fatal(err)
			}
			err = set.Execute(io.Discard, "x", v)
			if err != nil && !strings.Contains(err.Error(), "wrong number of args") {
				t.Errorf("%T: %v", v, err)
			}
		}
	}
}

// A rendering waits for its turn, or for the end of its task.
func TestRender_WaitsForASlot(t *testing.T) {
	fx := newFixture(t)
	fx.task.Templates = []*structs.Template{{}}
	h := fx.hook()
	if !h.slots.TryAcquire(1) {
		t.Fatal("there is no slot")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := h.render(ctx, &structs.Template{EmbeddedTmpl: "x"})
	if err == nil {
		t.Error("it was rendered beside another one")
	}
	h.slots.Release(1)
}
