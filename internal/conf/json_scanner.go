package conf

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// scanner reads JSON from its beginning. The tokens of json.Decoder take five times as long, because it
// decodes each by reflection.
type scanner struct {
	src []byte
	at  int
}

// errNotJSON ends the reading. syntaxError explains it.
var errNotJSON = errors.New("not JSON")

// next returns the next character that is no space, and 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.src); s.at++ {
		switch c := s.src[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// skip reads a character if it is the next one.
func (s *scanner) skip(c byte) bool {
	if s.next() != c {
		return false
	}
	s.at++
	return true
}

// more reports whether a list or object has a further element, and reads what is before it or ends the whole.
func (s *scanner) more(first bool, end byte) (bool, error) {
	switch {
	case s.skip(end):
		return false, nil
	case first || s.skip(','):
		return true, nil
	}
	return false, errNotJSON
}

// key reads the key of an object.
func (s *scanner) key() ([]byte, error) {
	if s.next() != '"' {
		return nil, errNotJSON
	}

	text, err := s.value()
	if err != nil {
		return nil, err
	}

	if !s.skip(':') {
		return nil, errNotJSON
	}

	// The keys of most sources are plain, and the decoding of a string costs more than the rest.
	if isPlain(text) {
		return text[1 : len(text)-1], nil
	}

	var key string
	err = json.Unmarshal(text, &key)
	return []byte(key), err
}

// isPlain reports whether a string stands for its own bytes.
func isPlain(text []byte) bool {
	for _, c := range text {
		if c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// value reads a whole value of any kind.
func (s *scanner) value() ([]byte, error) {
	switch s.next() {
	case '"':
		return s.text()
	case '{', '[':
		return s.nested()
	}
	return s.scalar()
}

// text reads a string.
func (s *scanner) text() ([]byte, error) {
	start := s.at
	plain := true
	for s.at++; s.at < len(s.src); s.at++ {
		switch c := s.src[s.at]; {
		case c == '"':
			s.at++
			return checked(s.src[start:s.at], plain)
		// The escaped character may be a quote, so it is passed over.
		case c == '\\':
			s.at++
			plain = false
		case c < ' ':
			return nil, errNotJSON
		}
	}

	return nil, errNotJSON
}

// nested reads a list or an object.
func (s *scanner) nested() ([]byte, error) {
	start := s.at
	// There is no recursion, so a deep source costs no stack.
	for depth := 0; s.at < len(s.src); {
		switch s.src[s.at] {
		case '"':
			_, err := s.text()
			if err != nil {
				return nil, err
			}

			continue

		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}

		s.at++
		if depth == 0 {
			return checked(s.src[start:s.at], false)
		}
	}

	return nil, errNotJSON
}

// scalar reads a number, true, false or null.
func (s *scanner) scalar() ([]byte, error) {
	rest := s.src[s.at:]
	end := bytes.IndexAny(rest, " \t\r\n,:]}")
	if end < 0 {
		end = len(rest)
	}
	s.at += end
	return checked(rest[:end], false)
}

// checked returns a value if it is JSON.
func checked(value []byte, known bool) ([]byte, error) {
	if known || json.Valid(value) {
		return value, nil
	}
	return nil, errNotJSON
}
