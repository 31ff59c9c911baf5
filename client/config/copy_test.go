package config

import (
	"reflect"
	"testing"
	"time"
)

// TestWithLive_SharesNothing changes every value that the former configuration and the one of the file reach.
func TestWithLive_SharesNothing(t *testing.T) {
	both := func() (old, next *Config) {
		old = new(Config)
		fill(reflect.ValueOf(old).Elem(), "old")
		next = new(Config)
		fill(reflect.ValueOf(next).Elem(), "next")
		return old, next
	}
	old, next := both()
	now := old.WithLive(next)
	want := old.WithLive(next)
	if !reflect.DeepEqual(now, want) || now.Meta["next"] != "next" || now.Options["old"] != "old" {
		t.Fatalf("got %+v", now)
	}
	spoil(reflect.ValueOf(old).Elem())
	spoil(reflect.ValueOf(next).Elem())
	again, nextAgain := both()
	if !reflect.DeepEqual(now, again.WithLive(nextAgain)) {
		t.Errorf("the configuration in use has changed with another one:\n%+v", now)
	}
}

func TestCopy_KeepsWhatIsNilOrEmpty(t *testing.T) {
	for _, c := range []*Config{
		DefaultConfig(),
		{Meta: map[string]string{}, Servers: []string{}},
	} {
		if got := c.Copy(); !reflect.DeepEqual(got, c) {
			t.Errorf("got  %+v\nwant %+v", got, c)
		}
	}
}

// everyKind has a number and a bool behind each kind of reference.
type everyKind struct {
	Numbers  []int
	Number   *float64
	Unsigned map[string]uint
	Nested   []*struct{ On *bool }
	Array    [1]*time.Duration
	Texts    []string
	Values   map[string]any
}

// TestSpoil_FindsWhatCopiesShare copies everything but one field, and expects to find that.
func TestSpoil_FindsWhatCopiesShare(t *testing.T) {
	for i := range reflect.TypeFor[everyKind]().NumField() {
		var shared, apart, want everyKind
		for _, v := range []*everyKind{&shared, &apart, &want} {
			fill(reflect.ValueOf(v).Elem(), "x")
		}
		field := reflect.ValueOf(&shared).Elem().Field(i)
		reflect.ValueOf(&apart).Elem().Field(i).Set(field)
		spoil(reflect.ValueOf(&shared).Elem())
		if reflect.DeepEqual(apart, want) {
			t.Errorf("%s: a shared value is not found", reflect.TypeFor[everyKind]().Field(i).Name)
		}
	}
}

// fill puts one element into each slice and map that a value reaches, 1 into each number, and the text into
// each string.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), text)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), text)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.Map:
		key := reflect.New(v.Type().Key()).Elem()
		value := reflect.New(v.Type().Elem()).Elem()
		fill(key, text)
		fill(value, text)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Interface:
		v.Set(reflect.ValueOf(map[string]any{text: []any{text}}))
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.Set(reflect.ValueOf(1).Convert(v.Type())) // a number: there are no functions and channels
	}
}

// spoil empties all that fill has filled.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			spoil(v.Field(i))
		}
	case reflect.Pointer, reflect.Interface:
		spoil(v.Elem())
	case reflect.Array:
		for i := range v.Len() {
			spoil(v.Index(i))
		}
	case reflect.Slice:
		spoil(v.Index(0))
		v.Index(0).SetZero()
	case reflect.Map:
		for _, key := range v.MapKeys() {
			spoil(v.MapIndex(key))
		}
		v.Clear()
	default:
		if v.CanSet() {
			v.SetZero()
		}
	}
}
