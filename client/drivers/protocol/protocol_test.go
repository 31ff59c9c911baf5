package protocol

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"berth/client/drivers/protocol/base"
	"berth/client/drivers/protocol/device"
	"berth/client/drivers/protocol/driver"
	"berth/client/drivers/protocol/hclspec"
	"berth/client/drivers/protocol/shared"
)

var (
	protoBlock = regexp.MustCompile(`^(message|enum|oneof|service) (\w+) \{`)
	protoField = regexp.MustCompile(`^(?:.* )?(\w+) = ([0-9]+);`)
	protoCall  = regexp.MustCompile(`^rpc (\w+)\((stream )?(\w+)\) returns \((stream )?(\w+)\)`)
)

// declared returns the fields, values and methods of a .proto file, each with its number or its types.
func declared(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	var blocks []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		prefix := strings.Join(slices.DeleteFunc(slices.Clone(blocks), func(name string) bool {
			return name == ""
		}), ".") + "."
		block := protoBlock.FindStringSubmatch(line)
		field := protoField.FindStringSubmatch(line)
		call := protoCall.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, "//"), strings.HasPrefix(line, "syntax"):
		case call != nil:
			found[prefix+call[1]] = call[2] + call[3] + " " + call[4] + call[5]
		case block != nil && block[1] == "oneof":
			blocks = append(blocks, "")
		case block != nil && !strings.HasSuffix(line, "}"):
			blocks = append(blocks, block[2])
		case line == "}":
			blocks = blocks[:len(blocks)-1]
		case field != nil:
			found[prefix+field[1]] = field[2]
		}
	}
	return found
}

// made returns the same of the code.
func made(file protoreflect.FileDescriptor) map[string]string {
	found := map[string]string{}
	local := func(d protoreflect.Descriptor) string {
		return strings.TrimPrefix(string(d.FullName()), string(file.Package())+".")
	}
	addEnums := func(enums protoreflect.EnumDescriptors) {
		for i := range enums.Len() {
			values := enums.Get(i).Values()
			for j := range values.Len() {
				v := values.Get(j)
				found[local(enums.Get(i))+"."+string(v.Name())] = fmt.Sprint(v.Number())
			}
		}
	}
	var addMessages func(protoreflect.MessageDescriptors)
	addMessages = func(messages protoreflect.MessageDescriptors) {
		for i := range messages.Len() {
			m := messages.Get(i)
			if m.IsMapEntry() {
				continue
			}
			for j := range m.Fields().Len() {
				f := m.Fields().Get(j)
				found[local(f)] = fmt.Sprint(f.Number())
			}
			addEnums(m.Enums())
			addMessages(m.Messages())
		}
	}
	addEnums(file.Enums())
	addMessages(file.Messages())
	addCalls(file, found)
	return found
}

func addCalls(file protoreflect.FileDescriptor, found map[string]string) {
	stream := map[bool]string{true: "stream "}
	for i := range file.Services().Len() {
		methods := file.Services().Get(i).Methods()
		for j := range methods.Len() {
			m := methods.Get(j)
			name := string(file.Services().Get(i).Name()) + "." + string(m.Name())
			found[name] = stream[m.IsStreamingClient()] + string(m.Input().Name()) + " " +
				stream[m.IsStreamingServer()] + string(m.Output().Name())
		}
	}
}

func TestCode_IsMadeOfTheText(t *testing.T) {
	for _, file := range []protoreflect.FileDescriptor{
		base.File_client_drivers_protocol_base_base_proto,
		device.File_client_drivers_protocol_device_device_proto,
		driver.File_client_drivers_protocol_driver_driver_proto,
		hclspec.File_client_drivers_protocol_hclspec_hclspec_proto,
		shared.File_client_drivers_protocol_shared_shared_proto,
	} {
		text := declared(t, filepath.Join("../../..", file.Path()))
		code := made(file)
		if len(text) == 0 {
			t.Errorf("%s declares nothing", file.Path())
		}
		for _, name := range slices.Sorted(maps.Keys(code)) {
			if text[name] != code[name] {
				t.Errorf("%s: %s is %q, the code has %q", file.Path(), name, text[name], code[name])
			}
		}
		for name := range text {
			if _, ok := code[name]; !ok {
				t.Errorf("%s: the code lacks %s", file.Path(), name)
			}
		}
	}
}
