package probe

import (
	"errors"
	"testing"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/probe/wire"
)

// A process asks for the room on a device as often as it likes, one question at a time.
func TestTellRoom(t *testing.T) {
	s, r, _ := start(t)
	c := connect(t, s)
	c.send(helloOf(t, s.Register(1)))
	for n := range 3 {
		c.send(frame(&wire.Room{Device: int32(n)}))
		e := r.next(t, "room")
		if asked, ok := e.Posted.(runner.RoomAsked); !ok || asked.Device != n || asked.Process.Job != 1 {
			t.Errorf("%+v", e.Posted)
		}
		if err := s.TellRoom(e.Process, int64(n)<<30); err != nil {
			t.Fatal(err)
		}
		var f wire.RoomIs
		if err := decode(&f, c.expect(wire.KindRoomIs)); err != nil || f.Bytes != int64(n)<<30 {
			t.Errorf("%+v, %v", f, err)
		}
		if err := s.TellRoom(e.Process, 1); !errors.Is(err, errNoRoom) {
			t.Errorf("an answer without a question: %v", err)
		}
	}
	deciding := connect(t, s)
	deciding.send(helloOf(t, s.RegisterDeciding(2)))
	deciding.send(frame(&wire.Room{}))
	if why := deciding.expectHangUp(); why != "ROOM: "+errWhoDecides.Error() {
		t.Errorf("hung up: %s", why)
	}
}
