package structs

import (
	"reflect"
	"testing"
	"time"

	"berth/internal/codec"
)

func TestTemplate_WaitHasBounds(t *testing.T) {
	for want, x := range map[[2]time.Duration]*TemplateWait{
		{5 * time.Second, 4 * time.Minute}: nil,
		{0, 0}:                             {},
		{2 * time.Second, 8 * time.Second}: {Min: new(2 * time.Second)},
		{0, time.Second}:                   {Max: new(time.Second)},
		{MaxTaskWait, MaxTaskWait}:         {Min: new(MaxTaskWait)},
	} {
		least, most := (&Template{Wait: x}).WaitBounds()
		if least != want[0] || most != want[1] {
			t.Errorf("%+v: got %s and %s, want %s", x, least, most, want)
		}
	}
}

// No splay and the user 0 are values of their own, also after a row was written and read.
func TestTemplate_KeepsZerosOverTheWire(t *testing.T) {
	in := &Template{Splay: new(time.Duration(0)), Uid: new(0), Gid: new(0)}
	b, err := codec.Encode(in)
	if err != nil {
		t.Fatal(err)
	}
	out := &Template{}
	err = codec.Decode(b, out)
	if err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("got %+v, %v", out, err)
	}
	b, err = codec.Encode(&Template{DestPath: "x"})
	if want := "\x81\xa8DestPath\xa1x"; err != nil || string(b) != want {
		t.Errorf("got %q, %v; want %q", b, err, want)
	}
}
