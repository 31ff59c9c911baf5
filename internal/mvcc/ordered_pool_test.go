package mvcc

import (
	"errors"
	"slices"
	"testing"
)

// The later values end first, and their results wait for the earlier ones.
func TestPool_HandsOutInTheOrderOfTheValues(t *testing.T) {
	var got []int
	ended := make([]chan struct{}, inParallel+1)
	for i := range ended {
		ended[i] = make(chan struct{})
	}

	close(ended[inParallel])
	p := OrderedPool[int, int]{
		Do: func(n int) (int, error) {
			<-ended[n+1]
			close(ended[n])
			return n, nil
		},
		HandOut: func(n int) error {
			got = append(got, n)
			return nil
		},
	}
	for n := range inParallel {
		if !p.Start(n) {
			t.Fatalf("value %d did not start", n)
		}
	}

	err := p.End()
	if err != nil || !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestPool_StopsAtTheFirstFailure(t *testing.T) {
	failure := errors.New("the second value fails")
	var got []int
	p := OrderedPool[int, int]{
		Do: func(n int) (int, error) {
			if n == 1 {
				return 0, failure
			}
			return n, nil
		},
		HandOut: func(n int) error {
			got = append(got, n)
			return nil
		},
	}
	started := 0
	for n := 0; n < 100 && p.Start(n); n++ {
		started++
	}

	err := p.End()
	if !errors.Is(err, failure) || !slices.Equal(got, []int{0}) || started > inParallel+2 {
		t.Errorf("got %v of %d values, %v", got, started, err)
	}
}
