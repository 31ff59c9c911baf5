package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"berth/internal/allocdir"
)

// Frame is a part of a streamed file: bytes, with the offset after them, or an event (see allocdir). An empty
// frame shows that the stream is alive.
type Frame struct {
	Offset    int64  `json:",omitempty"`
	Data      []byte `json:",omitempty"`
	File      string `json:",omitempty"`
	FileEvent string `json:",omitempty"`
}

const (
	heartbeatEvery = 10 * time.Second // interval of empty frames in an idle stream
	FrameSize      = 64 << 10
	// streamStall is the time within which a client takes the next bytes of a stream.
	streamStall = time.Minute
)

// Parts has the parts of a file. Next fills p, and returns io.EOF at the end of the file and of the context
// with which the source was opened.
type Parts interface {
	Next(p []byte) (allocdir.Part, error)
	Close() error
}

// stream is a file on its way to a client.
type Stream struct {
	Name  string // of the file, in its frames
	Plain bool   // bytes instead of frames
	Open  func(ctx context.Context) (Parts, error)
}

// stream sends a file until its end. An agent sends at most structs.MaxFileStreams at a time. At most two
// frames of each are in memory, however slow its client is. The reader runs in a goroutine of its own, so
// that a wait for the file delays no empty frame.
func (c *Call) Stream(s Stream) error {
	release, err := c.TakeStream()
	if err != nil {
		return err
	}
	defer release()

	ctx, cancel := context.WithCancel(c.Ctx())
	defer cancel()
	from, err := s.Open(ctx)
	if err != nil {
		return err
	}

	write, contentType := c.writeFrame, "application/json"
	if s.Plain {
		write, contentType = c.writeData, "text/plain; charset=utf-8"
	}

	c.SetStreamHeaders(contentType)
	parts := make(chan allocdir.Part)
	ended := make(chan error, 1)
	// It ends with ctx, with the file, or with its first fault. stream waits for it.
	go func() {
		defer close(parts)
		ended <- readParts(ctx, from, parts)
	}()
	// It returns at the end of the parts, or at the first write that fails.
	err = writeParts(s.Name, parts, write)
	cancel()
	readErr := <-ended // the reader has ended, so the source may be closed
	err = errors.Join(err, readErr, from.Close())
	lost := LostRight(c.Ctx())
	if err == nil && lost != nil && s.Plain {
		tellEnd(c.Writer, lost)
		return nil
	}
	return errors.Join(err, lost) // frames have no place for an error, so they break off
}

// TakeStream counts a stream until release. It is unavailable if the agent or the caller has its most. A slot
// is for the whole stream, which may go on for days. The right of the caller has to be known before: tokens
// of no worth would be callers without number.
func (c *Call) TakeStream() (release func(), err error) {
	free, fault := c.streaming.Take(streamCaller(c))
	if fault != nil {
		return nil, fault
	}
	return func() {
		free()
		_ = http.NewResponseController(c.Writer).SetWriteDeadline(time.Time{}) // for the next request
	}, nil
}

// streamCaller returns the caller for which the streams of a request count.
func streamCaller(c *Call) callerName {
	if c.wasOpen.Load() {
		return callerNameOf(c.Request, "") // nobody verifies its token
	}
	return callerNameOf(c.Request, c.Token())
}

// setStreamHeaders sets the headers of bytes from a task: a browser must not run them.
func (c *Call) SetStreamHeaders(contentType string) {
	c.Writer.Header().Set("Content-Type", contentType)
	c.Writer.Header().Set("X-Content-Type-Options", "nosniff")
}

// Each part has a buffer of its own, since the writer still has the one before.
func readParts(ctx context.Context, from Parts, parts chan<- allocdir.Part) error {
	for {
		part, err := from.Next(make([]byte, FrameSize))
		if len(part.Data) > 0 || part.Event != "" {
			select {
			case parts <- part:
			case <-ctx.Done():
				return nil
			}
		}
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// A part resets the ticker: only an idle stream needs an empty frame.
func writeParts(name string, parts <-chan allocdir.Part, write func(Frame) error) error {
	idle := time.NewTicker(heartbeatEvery)
	defer idle.Stop()
	if err := write(Frame{}); err != nil { // sends the headers to a follower of an empty file
		return err
	}

	for {
		select {
		case part, more := <-parts:
			if !more {
				return nil
			}

			frame := Frame{
				File:      name,
				Offset:    part.Offset,
				Data:      part.Data,
				FileEvent: part.Event,
			}

			if err := write(frame); err != nil {
				return err
			}

			idle.Reset(heartbeatEvery)

		case <-idle.C:
			if err := write(Frame{}); err != nil {
				return err
			}
		}
	}
}

func (c *Call) writeFrame(f Frame) error {
	return json.NewEncoder(c).Encode(f)
}

func (c *Call) writeData(f Frame) error {
	_, err := c.Write(f.Data)
	return err
}

// Write sends bytes to the client at once. A client that does not take them in time has gone.
func (c *Call) Write(p []byte) (int, error) {
	c.Began = true
	n, err := stallWriter{c.Writer, c.StreamStall}.Write(p)
	if err == nil {
		err = http.NewResponseController(c.Writer).Flush()
	}
	return n, err
}

// stallWriter bounds the time in which a client takes the bytes of one write.
type stallWriter struct {
	http.ResponseWriter
	stall time.Duration
}

func (w stallWriter) Write(p []byte) (int, error) {
	// A connection without deadlines, as in tests, is not bounded.
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.stall))
	return w.ResponseWriter.Write(p)
}

// Unwrap serves http.ResponseController.
func (w stallWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
