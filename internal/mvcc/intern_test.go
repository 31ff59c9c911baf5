package mvcc

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

type part struct {
	Name  string
	Notes map[string]string
	List  []int
}

func TestText_SharesEqualTexts(t *testing.T) {
	a := internOften("one")
	b := InternText(strings.Clone("one"))
	if a != "one" || unsafe.StringData(a) != unsafe.StringData(b) {
		t.Errorf("%q and %q do not share memory", a, b)
	}
	long := strings.Repeat("x", maxInternText+1)
	if unsafe.StringData(InternText(long)) != unsafe.StringData(long) {
		t.Error("a long text is shared")
	}
}

// internOften interns a text until it has replaced another one.
func internOften(text string) (shared string) {
	for range 100 * replaced {
		shared = InternText(strings.Clone(text))
	}
	return shared
}

func TestText_ReplacesTextsThatAreNotUsed(t *testing.T) {
	for i := range 20 * internBuckets {
		text := fmt.Sprint("text ", i)
		if got := InternText(text); got != text {
			t.Fatalf("got %q, want %q", got, text)
		}
	}
	a := internOften("late")
	if unsafe.StringData(a) != unsafe.StringData(InternText(strings.Clone("late"))) {
		t.Error("a frequent text is not shared")
	}
}

func TestMap_SharesTextsAndIsACopy(t *testing.T) {
	value := internOften("value")
	m := map[string]string{"k": strings.Clone("value")}
	own := InternMap(m)
	m["k"] = "another"
	if own["k"] != "value" || unsafe.StringData(own["k"]) != unsafe.StringData(value) {
		t.Errorf("the copy has %q, want the shared text %q", own["k"], value)
	}
	if InternMap(nil) != nil || InternMap(map[string]string{}) == nil {
		t.Error("Map confuses a nil and an empty map")
	}
}

func TestValue_SharesEqualValuesOnly(t *testing.T) {
	different := []part{
		{}, {Name: "a"}, {Notes: map[string]string{}}, {Notes: map[string]string{"a": ""}}, {List: []int{}},
		{List: []int{1}},
	}
	for i := range different {
		one := different[i]
		two := different[i]
		x := InternValue(&one)
		y := InternValue(&two)
		if x != y || !reflect.DeepEqual(*x, one) {
			t.Errorf("got %+v and %+v for %+v, want one equal value", *x, *y, one)
		}
		for k := range i {
			if InternValue(&different[k]) == x {
				t.Errorf("%+v and %+v share memory", different[k], one)
			}
		}
	}
	n := 1
	text := "a"
	if *InternValue(&n) != 1 || *InternValue(&text) != "a" || InternValue[part](nil) != nil {
		t.Error("a value of another type differs from its argument")
	}
}

func TestValue_IsACopy(t *testing.T) {
	for _, size := range []int{1, 2 * maxCode} {
		v := part{Name: "copied", Notes: map[string]string{"k": strings.Repeat("x", size)}}
		got := InternValue(&v)
		v.Notes["k"] = "changed"
		if len(got.Notes["k"]) != size {
			t.Errorf("a value of %d bytes changed with its argument", size)
		}
	}
}

func TestValue_IsBounded(t *testing.T) {
	for i := range 3 * maxValues {
		InternValue(&part{Name: fmt.Sprint("bounded ", i)})
	}
	InternValue(&part{Name: strings.Repeat("x", maxCode)})
	if n := len(shared.values); n > maxValues {
		t.Errorf("%d values are held, want at most %d", n, maxValues)
	}
	for k := range shared.values {
		if len(k.code) > maxCode {
			t.Error("a long value is held")
		}
	}
}

func TestValue_IsSafeForConcurrentUse(t *testing.T) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 10000 {
				want := fmt.Sprint("text ", i%7000)
				if got := InternValue(&part{Name: want}); got.Name != want {
					t.Errorf("got %q, want %q", got.Name, want)
					return
				}
			}
		})
	}
	wg.Wait()
}
