package api

import (
	"context"
	"net/http"
	"time"

	"berth/internal/backoff"
	"berth/structs"
)

// LateAfter is the time after which an answer is late. Most answers take some milliseconds.
const LateAfter = time.Second

// readTries bounds the attempts of a read while the servers are overloaded. The delays between them are those
// that the servers name.
const readTries = 6

type sending func() (*http.Response, error)

// repeated returns a read that is sent again after the delay that an overloaded server names.
func repeated(ctx context.Context, send sending) sending {
	return func() (*http.Response, error) {
		var pause backoff.Backoff // without delays of its own
		for tries := 1; ; tries++ {
			resp, err := send()
			// Only an overloaded server names a delay. Any other error is final.
			final := structs.RetryAfter(err) == 0 || tries == readTries
			if final || !backoff.Sleep(ctx, pause.After(err)) {
				return resp, err
			}
		}
	}
}

// tellLate returns the answer to a request. It calls late once if the answer takes longer than LateAfter.
func tellLate(late func(), send sending) (*http.Response, error) {
	var resp *http.Response
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		resp, err = send()
	}()
	timer := time.NewTimer(LateAfter)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		// The request goes on: late only tells the user that it takes long.
		late()
		<-ended
	}
	return resp, err
}
