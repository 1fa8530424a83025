-- Back ends that ask for decisions. BENCH_SCENE is what for:
--   login    begin and, with the ticket of any earlier answer, settle: two requests
--   guess    the same of guesses, each for another account from another address
--   begin    begin alone, each time another account from another address
--   stopped  one account from one address, which is told to wait
--   event    an event, each time of another account from another address
--   exceeded an event of one account, beyond its limit
local scene = os.getenv("BENCH_SCENE")
local token = os.getenv("BENCH_TOKEN")
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer " .. token

local threads = 0
function setup(thread)
   thread:set("first", threads)
   threads = threads + 1
end

local tickets, n = {}, 0

local function attempt()
   n = n + 1
   if scene == "stopped" or scene == "exceeded" then
      return '{"account":"no-such-user","address":"198.18.0.1"}'
   end
   if scene == "login" then -- people come back: 2,500 of each thread
      local who = first * 2500 + n % 2500
      return string.format('{"account":"person-%d","address":"198.18.%d.%d"}', who, who / 250 % 250, who % 250 + 1)
   end
   local who = first * 8000000 + n * 7919 % 8000000
   return string.format('{"account":"person-%d","address":"%d.%d.%d.1"}', who, 11 + who / 65536 % 80, who / 256 % 256, who % 256)
end

function request()
   local ticket = table.remove(tickets)
   if ticket then
      return wrk.format(nil, "/v1/attempts/settle", nil, '{"ticket":"' .. ticket .. '","outcome":"' .. (scene == "login" and "succeeded" or "failed") .. '"}')
   end
   if scene == "event" or scene == "exceeded" then
      return wrk.format(nil, "/v1/events/password-reset", nil, attempt())
   end
   return wrk.format(nil, "/v1/attempts", nil, attempt())
end

if scene == "login" or scene == "guess" then
   function response(status, headers, body)
      local ticket = status == 200 and string.match(body, '"ticket":"([^"]+)"')
      if ticket then
         tickets[#tickets + 1] = ticket
      end
   end
end
