package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"berth/structs"
)

// maxRedirects is how often a read is redirected, at most.
const maxRedirects = 5

// maxTarget bounds the bytes of the target of a redirect that an error has.
const maxTarget = 256

// followRedirect is http.Client.CheckRedirect. A proxy that leads from http to https answers each request
// with a redirect. net/http would repeat a write as a read, whose answer looks like a success. So a write is
// never redirected. A read is, on the same host: another one would get the token. The answer that is not
// followed becomes an error: see redirected.
func followRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	isRead := first.Method == http.MethodGet || first.Method == http.MethodHead
	sameHost := strings.EqualFold(req.URL.Hostname(), first.URL.Hostname())
	keepsTLS := req.URL.Scheme == "https" || first.URL.Scheme != "https"
	if isRead && sameHost && keepsTLS && len(via) <= maxRedirects {
		return nil
	}
	return http.ErrUseLastResponse
}

// redirected returns the error of a redirect that was not followed, nil for any other answer.
func redirected(resp *http.Response) error {
	target, err := resp.Location()
	if err != nil || resp.StatusCode/100 != 3 {
		return nil
	}

	base := target.Scheme + "://" + target.Host
	const advice = "if the agent is there, name that address with -address or BERTH_ADDR"
	asked := resp.Request.URL.Scheme + "://" + resp.Request.URL.Host
	if resp.Request.Method == http.MethodGet {
		return structs.Invalidf("%s redirects to %s, and a read is redirected %d times at most, on the same host, and "+
			"not from https to http; %s", asked, structs.Cut(base, maxTarget), maxRedirects, advice)
	}
	return structs.Invalidf("%s redirects to %s, and a write is never redirected: nothing was changed; %s",
		asked, structs.Cut(base, maxTarget), advice)
}

// checkAnswer returns an error if an answer in JSON cannot be one of the type into which it is decoded: it is
// null, or an object that has no field of the type. A proxy or another program has made it. A version of
// berth may lack some of the fields.
func checkAnswer(route *Route, answer reflect.Type, body []byte) error {
	for answer.Kind() == reflect.Pointer {
		answer = answer.Elem()
	}
	switch {
	case bytes.Equal(bytes.TrimSpace(body), []byte("null")) && route.Null:
		return nil
	case bytes.Equal(bytes.TrimSpace(body), []byte("null")):
		return structs.Internalf("the answer is null")
	case answer.Kind() != reflect.Struct:
		return nil
	}

	names, always := fieldNames(answer)
	d := json.NewDecoder(bytes.NewReader(body))
	_, err := d.Token() // the body is an object: it has been decoded
	isEmpty := err == nil && !d.More()
	if isEmpty && !always {
		return nil
	}
	// The loop ends at the first name of an answer of berth.
	for err == nil && d.More() {
		var name json.Token
		name, err = d.Token()
		text, _ := name.(string)
		if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, text) }) {
			return nil
		}
		var skipped json.RawMessage
		err = errors.Join(err, d.Decode(&skipped))
	}
	return structs.Internalf("the answer has no field of an answer to this call (%s)",
		structs.Cut(strings.Join(names, ", "), maxTarget))
}

// fieldNames returns the names of the fields in JSON. always says that an answer has one of them at least.
func fieldNames(of reflect.Type) (names []string, always bool) {
	for _, f := range reflect.VisibleFields(of) {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || f.Anonymous && tag == "" || tag == "-" {
			continue
		}
		names = append(names, cmp.Or(tag, f.Name))
		always = always || !strings.Contains(options, "omit")
	}
	return names, always
}
