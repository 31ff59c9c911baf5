package allocdir

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"berth/structs"
	"berth/test/kit"
)

// start opens a reader that the test closes.
func (fx *fixture) start(ctx context.Context, o Options) *Reader {
	fx.t.Helper()
	r, err := fx.dir.Read(ctx, o)
	kit.Must(fx.t, err)
	fx.t.Cleanup(func() { kit.Must(fx.t, r.Close()) })
	return r
}

// want reads parts up to an event, the end, or a text.
func want(t *testing.T, r *Reader, text string) {
	t.Helper()
	var got strings.Builder
	p := make([]byte, 100)
	for got.Len() < len(text) {
		part, err := r.Next(p)
		if err != nil {
			t.Fatalf("got %q and %v, want %q", got.String(), err, text)
		}
		got.WriteString(string(part.Data) + part.Event)
	}
	if got.String() != text {
		t.Fatalf("got %q, want %q", got.String(), text)
	}
}

func wantEnd(t *testing.T, r *Reader) {
	t.Helper()
	part, err := r.Next(make([]byte, 100))
	if !errors.Is(err, io.EOF) {
		t.Fatalf("got %q %q and %v, want the end", part.Data, part.Event, err)
	}
}

func TestReader_BeginsAtItsPlace(t *testing.T) {
	fx := newFixture(t)
	fx.write("alloc/f", "one\ntwo\nthree\n")
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "one\ntwo\nthree\n"},
		{Options{Offset: 4}, "two\nthree\n"},
		{Options{Offset: 99}, ""},
		{Options{FromEnd: true}, ""},
		{Options{FromEnd: true, Offset: 6}, "three\n"},
		{Options{FromEnd: true, Offset: 99}, "one\ntwo\nthree\n"},
		{Options{FromEnd: true, Lines: 1}, "three\n"},
		{Options{FromEnd: true, Lines: 2, Offset: 1}, "two\nthree\n"},
		{Options{FromEnd: true, Lines: 9}, "one\ntwo\nthree\n"},
	} {
		c.o.Path = "alloc/f"
		r := fx.start(t.Context(), c.o)
		want(t, r, c.want)
		wantEnd(t, r)
	}
	fx.write("alloc/f", "")
	wantEnd(t, fx.start(t.Context(), Options{Path: "alloc/f", FromEnd: true, Lines: 3}))
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	kit.Must(t, err)
	_, err = f.WriteString(text)
	kit.Must(t, errors.Join(err, f.Close()))
}

func TestReader_FollowsGrowthTruncationAndRotation(t *testing.T) {
	fx := newFixture(t)
	path := fx.at("alloc/f")
	fx.write("alloc/f", "one")
	r := fx.start(t.Context(), Options{Path: "alloc/f", Follow: true})
	want(t, r, "one")
	appendTo(t, path, "two")
	want(t, r, "two")
	kit.Must(t, os.Truncate(path, 0))
	want(t, r, Truncated)
	appendTo(t, path, "three")
	want(t, r, "three")
	// The writer has the old file open and writes to it after the rename.
	kit.Must(t, os.Rename(path, path+".1"))
	appendTo(t, path+".1", "four")
	want(t, r, "four")
	fx.write("alloc/f", "five")
	want(t, r, Truncated+"five")
	kit.Must(t, os.Remove(path))
	want(t, r, Deleted)
	wantEnd(t, r)
	wantEnd(t, r)
}

// look calls lookAgain, which must not see an event yet.
func look(t *testing.T, r *Reader) {
	t.Helper()
	if event, err := r.lookAgain(); event != "" || err != nil {
		t.Fatalf("got %q, %v, want no event yet", event, err)
	}
}

// TestReader_ReadsTheRestOfARotatedFile: the writer writes to the old file after the reader has seen the new
// one for the first time.
func TestReader_ReadsTheRestOfARotatedFile(t *testing.T) {
	fx := newFixture(t)
	path := fx.at("alloc/f")
	fx.write("alloc/f", "one")
	r := fx.start(t.Context(), Options{Path: "alloc/f", Follow: true})
	want(t, r, "one")
	kit.Must(t, os.Rename(path, path+".1"))
	fx.write("alloc/f", "new")
	look(t, r)
	appendTo(t, path+".1", "rest")
	want(t, r, "rest"+Truncated+"new")
}

// TestReader_WaitsForTheNextFileOfARotation: between a rename and the next file there is none.
func TestReader_WaitsForTheNextFileOfARotation(t *testing.T) {
	fx := newFixture(t)
	path := fx.at("alloc/f")
	fx.write("alloc/f", "one")
	r := fx.start(t.Context(), Options{Path: "alloc/f", Follow: true})
	want(t, r, "one")
	kit.Must(t, os.Rename(path, path+".1"))
	for range misses - 1 {
		look(t, r)
	}
	fx.write("alloc/f", "new")
	want(t, r, Truncated+"new")
	kit.Must(t, os.Remove(path))
	for range misses - 1 {
		look(t, r) // the looks before do not count
	}
	want(t, r, Deleted)
}

func TestReader_StopsAtALinkInPlaceOfItsFile(t *testing.T) {
	fx := newFixture(t)
	fx.write("alloc/f", "one")
	r := fx.start(t.Context(), Options{Path: "alloc/f", Follow: true})
	want(t, r, "one")
	kit.Must(t, os.Rename(fx.at("web/local/absolute"), fx.at("alloc/f")))
	for {
		part, err := r.Next(make([]byte, 100))
		if strings.Contains(string(part.Data), "SECRET") {
			t.Fatal("a follower leaves the allocation")
		}
		if err != nil {
			if !structs.IsKind(err, structs.KindDenied) {
				t.Fatalf("got %v, want denied", err)
			}
			return
		}
	}
}

func TestReader_EndsWithTheAllocation(t *testing.T) {
	fx := newFixture(t)
	fx.write("alloc/f", "one")
	ended := make(chan struct{})
	r := fx.start(t.Context(), Options{Path: "alloc/f", Follow: true, Ended: ended})
	want(t, r, "one")
	appendTo(t, fx.at("alloc/f"), "last")
	close(ended)
	want(t, r, "last")
	wantEnd(t, r)
	for range 2000 { // the last text and the end come beside a look
		ended := make(chan struct{})
		fx.write("alloc/f", "one")
		r, err := fx.dir.Read(t.Context(), Options{Path: "alloc/f", Follow: true, Ended: ended})
		kit.Must(t, err)
		var writer sync.WaitGroup
		writer.Go(func() {
			appendTo(t, fx.at("alloc/f"), "last")
			close(ended)
		})
		want(t, r, "onelast")
		wantEnd(t, r)
		writer.Wait()
		kit.Must(t, r.Close())
	}
	ctx, cancel := context.WithCancel(t.Context())
	r = fx.start(ctx, Options{Path: "alloc/f", Follow: true, FromEnd: true})
	cancel()
	wantEnd(t, r)
}
