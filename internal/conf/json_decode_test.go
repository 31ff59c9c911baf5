package conf

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

type jsonInner struct {
	Count *int
	Wait  time.Duration
	Tags  map[string]string
}

type embedded struct{ Index uint64 }

type target struct {
	ID      string
	On      bool
	Groups  []*jsonInner
	ByName  map[string]*jsonInner
	Any     map[string]any
	Secrets structs.Secrets
	Raw     json.RawMessage
	Bytes   []byte
	At      time.Time
	Hidden  string `json:"-"`
	Other   string `json:"another"`
	Self    selfMade
	embedded
}

// selfMade decodes itself from an object of its fields.
type selfMade struct{ Count int }

func (s *selfMade) UnmarshalJSON(b []byte) error {
	type plain selfMade
	v := plain{Count: 1}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*s = selfMade(v)
	return nil
}

func TestDecode_RejectsUnknownAndWrongFields(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"everything",
			`{"ID":"x","On":true,"Groups":[{"Count":1,"Wait":5,"Tags":{"a":"b"}},null],"ByName":{"z":{"Count":2}},"Any":{"x":[1,{"y":2}]},"Secrets":{"k":"v"},"Raw":[{"what":"ever"}],"Bytes":"aGk=","At":"2026-01-02T03:04:05Z","another":"o","Index":3}`,
			""},
		{"nulls", `{"ID":null,"Groups":null,"ByName":null,"At":null,"Any":null,"On":null}`, ""},
		{"any case", `{"id":"x","groups":[{"count":1}]}`, ""},
		{"spaces", " { \"ID\" : \"x\" ,\n\t\"Groups\" : [ { } , null ] ,\r\"Any\" : { \"a\" : [ 1 , \"]\\\"\" ] } } ", ""},
		{"escaped key", `{"\u0049D":"x","ByName":{"\"":{}}}`, ""},
		{"escaped key twice", `{"\u0049D":"x","ID":"y"}`, "ID: the field is given twice (line 1, column 16)"},
		{"empty unknown", `{"New":{"A":null,"B":["",0,-0.0,false,{}],"C":{"D":"0001-01-01T00:00:00Z"}}}`, ""},
		{"empty unknown text", `{"New":""}`, ""},
		{"unknown", `{"ID":"x","New":1}`, "New: berth does not know this field (line 1, column 11)"},
		{"unknown inside", "{\"Groups\":[{},\n {\"Networks\":[{\"Mode\":\"bridge\"}]}]}",
			"Groups[1].Networks: berth does not know this field (line 2, column 3)"},
		{"unknown in a map", `{"ByName":{"a b":{"Zap":"z"}}}`,
			`ByName["a b"].Zap: berth does not know this field (line 1, column 19)`},
		{"hidden", `{"Hidden":"x"}`, "Hidden: berth does not know this field (line 1, column 2)"},
		{"an empty key's value", `{"New":{"":"x"}}`, "New: berth does not know this field (line 1, column 2)"},
		{"wrong type", `{"Groups":[{"Count":"three"}]}`,
			"Groups[0].Count: expected a number, found a string (line 1, column 21)"},
		{"list for object", `{"ByName":[]}`, "ByName: expected an object, found a list (line 1, column 11)"},
		{"object for list", `{"Groups":{}}`, "Groups: expected a list, found an object (line 1, column 11)"},
		{"number for bool", `{"On":1}`, "On: expected true or false, found a number (line 1, column 7)"},
		{"string for a duration", `{"Groups":[{"Wait":"5s"}]}`,
			"Groups[0].Wait: expected a number, found a string (line 1, column 20)"},
		{"fraction", `{"Groups":[{"Count":1.5}]}`, "Groups[0].Count: expected a whole number of 64 bits, found 1.5 (line 1, column 21)"},
		{"overflow", `{"Index":-1}`, "Index: expected a whole number of 64 bits that is not negative, found -1 (line 1, column 10)"},
		{"twice", `{"ID":"x","id":"y"}`, "ID: the field is given twice (line 1, column 11)"},
		{"trailing", `{"ID":"x"} {}`, "expected the end of the body (line 1, column 12)"},
		{"trailing zero", "{} \x00", "expected the end of the body (line 1, column 4)"},
		{"not an object", `[1]`, "expected an object, found a list (line 1, column 1)"},
		{"empty", " \n", "the body is empty"},
		{"cut", `{"ID":"x`, "the body ends in the middle of a value (line 1, column 9)"},
		{"cut after a key", `{"ID"`, "the body ends in the middle of a value"},
		{"not JSON", `{"ID":'x'}`, "not JSON: invalid character '\\'' looking for beginning of value (line 1, column 7)"},
		{"word", `{"On":trux}`, "not JSON"},
		{"number with a zero before it", `{"Index":01}`, "not JSON"},
		{"escape", `{"ID":"\q"}`, "not JSON"},
		{"escape in a key", `{"\q":1}`, "not JSON"},
		{"control character", "{\"ID\":\"\n\"}", "not JSON"},
		{"comma before the end", `{"ID":"x",}`, "not JSON"},
		{"comma before the end of a list", `{"Groups":[null,]}`, "not JSON"},
		{"no comma", `{"Groups":[{}{}]}`, "not JSON"},
		{"no colon", `{"ID" "x"}`, "not JSON"},
		{"key without quotes", `{ID:"x"}`, "not JSON"},
		{"brackets that do not fit", `{"Any":{"a":[}}}`, "not JSON"},
		{"cut in an unknown value", `{"New":[{"a":1}`, "the body ends in the middle of a value"},
		{"unknown inside a type that decodes itself", `{"Self":{"Count":2,"Zap":1}}`,
			"Self.Zap: berth does not know this field (line 1, column 20)"},
		{"wrong inside a type that decodes itself", `{"Self":{"Count":"2"}}`,
			"Self.Count: expected a number, found a string"},
		{"bad time", `{"At":"soon"}`, "At: parsing time"},
		{"secret of another type", `{"Secrets":{"k":1}}`, "Secrets"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got target
			err := DecodeJSON([]byte(c.in), &got, nil)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %s", err, c.want)
			}
			if !structs.IsKind(err, structs.KindInvalid) {
				t.Errorf("got kind %s, want invalid", structs.KindOf(err))
			}
		})
	}
}

// TestDecode_ChecksWithFewAllocations compares with encoding/json alone.
func TestDecode_ChecksWithFewAllocations(t *testing.T) {
	src := []byte(`{"ID":"x","On":true,"Groups":[{"Count":1,"Wait":5},{"Count":2,"Wait":6}],"Index":3}`)
	count := func(decode func() error) float64 {
		return testing.AllocsPerRun(100, func() {
			if err := decode(); err != nil {
				t.Fatal(err)
			}
		})
	}
	alone := count(func() error { return json.Unmarshal(src, new(target)) })
	got := count(func() error { return DecodeJSON(src, new(target), nil) })
	if got > alone+12 {
		t.Errorf("got %v allocations, and %v without the checks", got, alone)
	}
}

func TestDecode_IgnoresFieldsOfTheDialect(t *testing.T) {
	ignore := func(field string, v json.RawMessage) (bool, string) {
		return field == "Old" && string(v) == "7", map[string]string{"Former": "use ID"}[field]
	}
	var got target
	if err := DecodeJSON([]byte(`{"ID":"x","Old":7}`), &got, ignore); err != nil || got.ID != "x" {
		t.Fatalf("got %+v, %v; want ID x", got, err)
	}
	if err := DecodeJSON([]byte(`{"Old":8}`), &got, ignore); err == nil {
		t.Fatal("Decode drops a value that must not be ignored")
	}
}

// FuzzDecodeJSON: DecodeJSON never panics. It accepts only input that encoding/json reads equally. Its errors
// are invalid.
func FuzzDecodeJSON(f *testing.F) {
	for _, s := range []string{`{"ID":"x","Groups":[{"Count":1}]}`, `{"New":{"a":[0]}}`, `{"id":1}`, `[`,
		`{"Any":{"a":[{"b":1}]}}`, `{"At":"x"}`, `{"Raw":{"a"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var got, want target
		err := DecodeJSON(b, &got, nil)
		if err != nil {
			if !structs.IsKind(err, structs.KindInvalid) {
				t.Fatalf("%v has kind %s, want invalid", err, structs.KindOf(err))
			}
			return
		}
		if err := json.Unmarshal(b, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: got %+v, encoding/json has %+v, %v", b, got, want, err)
		}
	})
}

func TestDecode_CutsLongNamesInErrors(t *testing.T) {
	long := strings.Repeat("k", 1<<20)
	var dst struct{ M map[string]struct{ A int } }
	for _, body := range []string{`{"M":{"` + long + `":{"A":"x"}}}`, `{"` + long + `":1}`} {
		err := DecodeJSON([]byte(body), &dst, nil)
		if err == nil || len(err.Error()) > 300 {
			t.Errorf("got %.300v, want an error of at most 300 bytes", err)
		}
	}
}
