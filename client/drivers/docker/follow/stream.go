package follow

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// maxFrame bounds one frame: a message has at most 16 KiB and its time.
	maxFrame = 1 << 20
	// maxMessage is the length at which the daemon splits a line into messages.
	maxMessage = 16 << 10
	// timeLength is the length of a time and the space after it, as the daemon's log has them.
	timeLength = len("2006-01-02T15:04:05.000000000Z ")
)

// The streams of a frame.
const (
	frameStdout = 1
	frameStderr = 2
	frameFault  = 3 // the daemon has failed to read the log
)

// readFrames reads a stream of frames: the header of a frame has the number of its stream and its length, and
// its content is a time, a space and a message.
func (f *follower) readFrames(r io.Reader) error {
	in := bufio.NewReader(r)
	// Messages of one time may be new and old, so the position at the beginning of the stream counts.
	old := skipper{from: f.position()}
	var header [8]byte
	for {
		_, err := io.ReadFull(in, header[:])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}

		length := binary.BigEndian.Uint32(header[4:])
		if length > maxFrame {
			return fmt.Errorf("the daemon sends a message of %d bytes", length)
		}

		frame := make([]byte, length)
		_, err = io.ReadFull(in, frame)
		if err != nil {
			return err
		}

		err = f.writeFrame(header[0], frame, &old)
		if err != nil {
			return err
		}
	}
}

func (f *follower) writeFrame(stream byte, frame []byte, old *skipper) error {
	if stream == frameFault {
		return fmt.Errorf("the daemon cannot read the output: %s", frame)
	}

	if stream != frameStdout && stream != frameStderr {
		return fmt.Errorf("the daemon sends a message of stream %d", stream)
	}

	at, text, ok := cutTime(frame)
	if !ok {
		return fmt.Errorf("the daemon sends a message without a time")
	}

	if old.isOld(at) {
		return nil
	}

	if f.dropsEnds && len(text) < maxMessage && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n') // only a part of a line that is not its last has that length
	}

	return f.write(f.to[stream-frameStdout], at, text)
}

// cutTime splits a message into its time and its text.
func cutTime(message []byte) (at time.Time, text []byte, ok bool) {
	head, text, ok := bytes.Cut(message, []byte(" "))
	if !ok {
		return at, nil, false
	}
	at, err := time.Parse(time.RFC3339Nano, string(head))
	return at, text, err == nil
}

// readRaw reads the output of a container with a terminal: times, spaces and messages without frames. A
// message ends with its line, or at maxMessage bytes if another time follows there. Only a stream of an ended
// container has a last message without an end; in any other stream that is a part of one.
func (f *follower) readRaw(r io.Reader, ended bool) error {
	in := bufio.NewReaderSize(r, 2*maxMessage)
	old := skipper{from: f.position()}
	rest := false // the message is the rest of a line
	for {
		message, err := readMessage(in, rest && f.dropsEnds)
		rest = len(message) > 0 && message[len(message)-1] != '\n'
		if len(message) > 0 && (err == nil || ended) {
			at, text, ok := cutTime(message)
			if !ok {
				return fmt.Errorf("the daemon sends a message without a time")
			}

			if !old.isOld(at) {
				werr := f.write(f.to[0], at, text)
				if werr != nil {
					return werr
				}
			}
		}

		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readMessage reads one message with its time. noEnd says that the message may lack the end of its line, of
// which a terminal's carriage return is left. Then the message gets the end.
func readMessage(in *bufio.Reader, noEnd bool) ([]byte, error) {
	var message []byte
	for {
		c, err := in.ReadByte()
		if err != nil {
			return message, err
		}

		message = append(message, c)
		if c == '\n' {
			return message, nil
		}

		if len(message) == timeLength+maxMessage && timeFollows(in) {
			return message, nil
		}

		if noEnd && c == '\r' && timeFollows(in) {
			return append(message, '\n'), nil
		}

		if len(message) > maxFrame {
			return nil, fmt.Errorf("the daemon sends a line of more than %d bytes", maxFrame)
		}
	}
}

// timeFollows reports whether a time begins here. At the end of the stream nothing follows.
func timeFollows(in *bufio.Reader) bool {
	next, err := in.Peek(timeLength)
	if err != nil {
		return false
	}
	_, _, ok := cutTime(next)
	return ok
}
