package hooks

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestSequence_UpInOrderAndDownInReverse(t *testing.T) {
	var log []string
	failing := map[string]int{}
	do := func(what string) func(context.Context) error {
		return func(context.Context) error {
			log = append(log, what)
			failing[what]--
			if failing[what] >= 0 {
				return errors.New("no")
			}
			return nil
		}
	}
	var saved [][]string
	var full error
	s := NewSequence(hclog.NewNullLogger(), func(b []string) error {
		saved = append(saved, b)
		return full
	})
	for _, n := range []string{"a", "b", "c"} {
		s.list = append(s.list, step{n, do("up " + n), do("down " + n)})
	}
	ctx := context.Background()
	failing["up c"] = 1
	if err := s.Up(ctx); err == nil || !strings.HasPrefix(err.Error(), "hook c: ") {
		t.Fatalf("got %v, want an error of c", err)
	}
	failing["down b"], failing["down c"] = 1, 1
	err := s.Down(ctx)
	if err == nil || !strings.Contains(err.Error(), "hook c") ||
		!strings.Contains(err.Error(), "hook b") {
		t.Errorf("got %v, want the errors of b and c", err)
	}
	if !slices.Equal(s.begun, []string{"b", "c"}) {
		t.Errorf("begun are %q", s.begun)
	}
	if err := s.Down(ctx); err != nil {
		t.Error(err)
	}
	order := []string{"up a", "up b", "up c", "down c", "down b", "down a", "down c", "down b"}
	if !slices.Equal(log, order) {
		t.Errorf("the order is %q, want %q", log, order)
	}
	if !reflect.DeepEqual(saved,
		[][]string{{"a", "b", "c"}, {"b", "c"}, {}}) {
		t.Errorf("saved %q", saved)
	}
	s.Restore([]string{"of another version"})
	if err := s.Down(ctx); err != nil || len(s.begun) > 0 || len(s.recorded) > 0 {
		t.Errorf("an unknown hook: %v, left %v", err, s.recorded)
	}
	full, log = errors.New("disk full"), nil
	if err := s.Up(ctx); err == nil || !strings.Contains(err.Error(), "disk full") || len(log) > 0 {
		t.Errorf("got %v after %v: a step began without a record", err, log)
	}
}
