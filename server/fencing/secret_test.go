package fencing

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A file system that hangs keeps a read for ever. The fence of a node must not wait for it.
func TestReadWithin_EndsWithoutTheFileSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mended := make(chan struct{})
		hangs := func() (string, error) {
			<-mended
			return "late", nil
		}
		var reads sync.WaitGroup
		for range cap(secretReads) {
			reads.Go(func() {
				_, err := readWithin(time.Minute, hangs)
				if err == nil || !strings.Contains(err.Error(), "not read within 1m0s") {
					t.Errorf("got %v", err)
				}
			})
		}
		reads.Wait()

		begun := time.Now()
		_, err := readWithin(time.Minute, hangs)
		if err == nil || !strings.Contains(err.Error(), "earlier reads") || time.Since(begun) > 0 {
			t.Errorf("beyond the bound: got %v after %s", err, time.Since(begun))
		}

		close(mended)
		synctest.Wait()
		got, err := readWithin(time.Minute, func() (string, error) { return "secret", nil })
		if got != "secret" || err != nil {
			t.Errorf("once it is mended: got %q, %v", got, err)
		}
	})
}
