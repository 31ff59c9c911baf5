package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"berth/structs"
)

// This file ends a request that lasts when its caller has lost the right to it.

// confirmEvery is the time between two questions, and confirmLimit the time for which a request lasts without
// an answer.
const (
	confirmEvery = 2 * time.Second
	confirmLimit = 30 * time.Second
)

// watchRight asks until ctx ends whether the caller still has the right, and calls end with the error once it
// has not. Another error than a denial, as one without a leader, says nothing about the right, so it ends the
// request only after confirmLimit.
func watchRight(ctx context.Context, ask func(context.Context) error, end context.CancelCauseFunc) {
	again := time.NewTicker(confirmEvery)
	defer again.Stop()
	confirmed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}

		asking, cancel := context.WithDeadline(ctx, confirmed.Add(confirmLimit))
		err := ask(asking)
		cancel()
		switch {
		case err == nil:
			confirmed = time.Now()
		case structs.IsKind(err, structs.KindDenied):
			end(err)
			return
		case time.Since(confirmed) >= confirmLimit:
			end(structs.Unavailablef("no server has confirmed the right of the caller for %s: %w", confirmLimit, err))
			return
		}
	}
}

// The trailers of a stream that ends with the right of its caller: the kind and the text of the error. The
// status of the answer was sent before.
const (
	trailerKind = "X-Berth-Ended-Kind"
	trailerText = "X-Berth-Ended"
)

// LostRight returns the error with which watchRight has ended a request, nil for a request that it has not
// ended.
func LostRight(ctx context.Context) error {
	err := context.Cause(ctx)
	if errors.As(err, new(*structs.Error)) {
		return err
	}
	return nil
}

// tellEnd ends an answer without a length, whose status was sent, with an error. The handler returns then.
func tellEnd(w http.ResponseWriter, err error) {
	h := w.Header()
	h.Set(http.TrailerPrefix+trailerKind, string(structs.KindOf(err)))
	h.Set(http.TrailerPrefix+trailerText, structs.Printable(structs.Cut(err.Error(), structs.MaxReason)))
}

// confirmedBody returns the body of an answer. A read at its end returns the error of tellEnd, if there is
// one.
func ConfirmedBody(resp *http.Response) io.ReadCloser { return confirmedReader{resp.Body, resp} }

type confirmedReader struct {
	io.ReadCloser
	of *http.Response
}

func (b confirmedReader) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	kind := b.of.Trailer.Get(trailerKind) // known at the end
	if errors.Is(err, io.EOF) && kind != "" {
		text := structs.Cut(b.of.Trailer.Get(trailerText), structs.MaxReason)
		err = &structs.Error{Kind: structs.Kind(kind), Text: cmp.Or(text, kind)}
	}
	return n, err
}
