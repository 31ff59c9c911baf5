package fastjson

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

func writeBool(b []byte, v reflect.Value, _ *Encoder) []byte {
	return strconv.AppendBool(b, v.Bool())
}

func writeInt(b []byte, v reflect.Value, _ *Encoder) []byte {
	return strconv.AppendInt(b, v.Int(), 10)
}

func writeUint(b []byte, v reflect.Value, _ *Encoder) []byte {
	return strconv.AppendUint(b, v.Uint(), 10)
}

func writeString(b []byte, v reflect.Value, _ *Encoder) []byte {
	return appendString(b, v.String())
}

// plain has the bytes that a string contains unescaped. Of the others some are escaped, and some belong to
// characters that are escaped.
var plain = func() (plain [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		plain[c] = !strings.ContainsRune(`"\<>&`, c)
	}
	return plain
}()

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if !plain[s[i]] {
			text, _ := json.Marshal(s) // every string can be written
			return append(b, text...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// writeTime writes the bytes of the method of time.Time, and leaves to the method the times that it rejects.
func writeTime(b []byte, v reflect.Value, e *Encoder) []byte {
	if !v.CanAddr() {
		return byLibrary(b, v, e)
	}
	t := v.Addr().Interface().(*time.Time)
	_, offset := t.Zone()
	if offset != 0 ||
		t.Year() < 0 || t.Year() > 9999 {
		return byLibrary(b, v, e)
	}
	b = append(b, '"')
	b = t.AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

func pointerWriter(elem writer) writer {
	return func(b []byte, v reflect.Value, e *Encoder) []byte {
		if v.IsNil() {
			return append(b, "null"...)
		}
		return elem(b, v.Elem(), e)
	}
}

func (p plan) sliceWriter(t reflect.Type) writer {
	if t.Elem().Kind() == reflect.Uint8 {
		return byLibrary // base64
	}

	elem := p.writer(t.Elem())
	return func(b []byte, v reflect.Value, e *Encoder) []byte {
		if v.IsNil() {
			return append(b, "null"...)
		}

		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}

			b = elem(b, v.Index(i), e)
		}

		return append(b, ']')
	}
}

// writeStrings writes the most frequent kind of map.
func writeStrings(b []byte, v reflect.Value, e *Encoder) []byte {
	m, _ := v.Interface().(map[string]string)
	if m == nil {
		return append(b, "null"...)
	}

	e.keys = e.keys[:0]
	for k := range m {
		e.keys = append(e.keys, k)
	}

	slices.Sort(e.keys)
	b = append(b, '{')
	for i, k := range e.keys {
		if i > 0 {
			b = append(b, ',')
		}

		b = appendString(b, k)
		b = append(b, ':')
		b = appendString(b, m[k])
	}

	return append(b, '}')
}

func (p plan) mapWriter(t reflect.Type) writer {
	if t.Key().Kind() != reflect.String || marshals(t.Key()) {
		return byLibrary
	}

	elem := p.writer(t.Elem())
	return func(b []byte, v reflect.Value, e *Encoder) []byte {
		if v.IsNil() {
			return append(b, "null"...)
		}

		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int {
			return strings.Compare(a.String(), b.String())
		})
		b = append(b, '{')
		for i, k := range keys {
			if i > 0 {
				b = append(b, ',')
			}

			b = appendString(b, k.String())
			b = append(b, ':')
			b = elem(b, v.MapIndex(k), e)
		}

		return append(b, '}')
	}
}
